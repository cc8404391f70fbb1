/** Reads Server-Sent Events out of bytes, however they were cut on the way. Knows nothing of connections. */

export interface SseMessage {
  event: string;
  data: string;
  /** The last id that was given, by this message or one before it. */
  id: string;
}

export class SseParser {
  #decoder = new TextDecoder(); // keeps the first bytes of a cut character until the rest comes
  #rest = "";
  #afterCr = false;
  #event = "";
  #data: string[] = [];
  #id: string;

  constructor(lastId = "") {
    this.#id = lastId;
  }

  /** Returns the messages that these bytes complete. */
  push(bytes: Uint8Array): SseMessage[] {
    const messages: SseMessage[] = [];
    for (const line of this.#lines(this.#decoder.decode(bytes, { stream: true }))) {
      const message = this.#read(line);
      if (message) messages.push(message);
    }
    return messages;
  }

  /** A line ends with CR, LF or both; the two of a CRLF may come in different pieces. */
  *#lines(text: string): Generator<string> {
    if (text === "") return;
    const fresh = this.#afterCr && text.startsWith("\n") ? text.slice(1) : text;
    this.#afterCr = text.endsWith("\r");
    const lines = fresh.split(/\r\n|\r|\n/);
    const last = lines.pop() ?? "";
    for (const line of lines) {
      yield this.#rest + line;
      this.#rest = "";
    }
    this.#rest += last;
  }

  #read(line: string): SseMessage | undefined {
    if (line === "") return this.#dispatch();
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.#data.push(value);
    else if (field === "event") this.#event = value;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    return undefined;
  }

  #dispatch(): SseMessage | undefined {
    const message = { event: this.#event || "message", data: this.#data.join("\n"), id: this.#id };
    const isEmpty = this.#data.length === 0;
    this.#event = "";
    this.#data = [];
    return isEmpty ? undefined : message;
  }
}
