/** Follows a stream of the server for as long as somebody looks: comes back after a loss, from the last id. */

import type { Asking } from "./asking";
import { Refused } from "./refused";
import { type SseMessage, SseParser } from "./sse";
import type { StreamMessages } from "./types";
import { BackOff, seen, whileSeen } from "./waiting";

export interface Following {
  /** `events` or `runs/{id}/events`. */
  path: string;
  query?: Record<string, string | undefined>;
  /** The cursor to begin after: an id seen before, `0`, or `now`. */
  after?: string;
  on: { [K in keyof StreamMessages]?: (said: StreamMessages[K], id: string) => void };
  /** Told whenever a connection has been opened: what it tells from here on may have a gap before it. */
  onOpen?: () => void;
  /** Told false when the connection has been gone for a second, and true when it is back. */
  onConnected?: (connected: boolean) => void;
  signal: AbortSignal;
}

const SILENCE_MS = 40_000; // a comment comes every 15 s; without one the other side is gone
const SAY_LOST_AFTER_MS = 1_000;
const FINAL = new Set([400, 401, 403, 404]);

/** Returns when `signal` is aborted.
 *
 * Throws `Refused` if the server will not have us, which no other try would change. */
export async function follow(client: Asking, following: Following): Promise<void> {
  const lost = new LossTeller(following.onConnected);
  try {
    await followOn(client, following, lost);
  } finally {
    lost.forget(); // nothing is tried again
  }
}

async function followOn(client: Asking, following: Following, lost: LossTeller): Promise<void> {
  const { signal } = following;
  const backOff = new BackOff();
  let after = following.after;
  while (!signal.aborted) {
    await seen(signal);
    const watched = whileSeen(signal);
    try {
      for await (const message of messages(client, { ...following, after }, watched.signal, lost)) {
        if (message.event === "bye") break;
        hand(message, following.on);
        after = message.id || after;
        backOff.reset();
      }
    } catch (error) {
      if (error instanceof Refused && FINAL.has(error.status)) throw error;
    } finally {
      watched.drop();
    }
    if (watched.wasHidden()) continue;
    lost.mayHaveBegun();
    await backOff.wait(signal);
  }
}

async function* messages(
  client: Asking,
  { path, query, after, onOpen }: Pick<Following, "path" | "query" | "onOpen"> & { after: string | undefined },
  signal: AbortSignal,
  lost: LossTeller,
): AsyncGenerator<SseMessage> {
  const connection = new AbortController();
  const close = (): void => connection.abort();
  signal.addEventListener("abort", close);
  if (signal.aborted) close();
  let silence = setTimeout(close, SILENCE_MS);
  try {
    const response = await client.open(path, { ...query, after }, connection.signal);
    lost.isOver();
    onOpen?.();
    const parser = new SseParser(after);
    const reader = response.body?.getReader();
    for (let piece = await reader?.read(); piece && !piece.done; piece = await reader?.read()) {
      clearTimeout(silence);
      silence = setTimeout(close, SILENCE_MS);
      yield* parser.push(piece.value);
    }
  } finally {
    clearTimeout(silence);
    signal.removeEventListener("abort", close);
    close();
  }
}

/** A handler that throws is told to the console; the stream goes on. */
function hand(message: SseMessage, on: Following["on"]): void {
  const handler = on[message.event as keyof StreamMessages] as ((said: unknown, id: string) => void) | undefined;
  const said: unknown = JSON.parse(message.data);
  try {
    handler?.(said, message.id);
  } catch (error) {
    console.error(error);
  }
}

/** A connection that comes back within a second was not lost for anybody who looks. */
class LossTeller {
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isLost = false;
  readonly #tell: (connected: boolean) => void;

  constructor(tell: ((connected: boolean) => void) | undefined) {
    this.#tell = tell ?? (() => undefined);
  }

  mayHaveBegun(): void {
    this.#timer ??= setTimeout(() => {
      this.#isLost = true;
      this.#tell(false);
    }, SAY_LOST_AFTER_MS);
  }

  isOver(): void {
    this.forget();
    if (this.#isLost) this.#tell(true);
    this.#isLost = false;
  }

  forget(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
