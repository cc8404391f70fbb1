import { expect, test } from "vitest";
import { SseParser, type SseMessage } from "./sse";

const SAMPLE =
  ": hello\n\n" +
  'event: record\nid: 12\ndata: {"seq": 12}\n\n' +
  "event: text\r\nid: 12.345\r\ndata: naïve 🪢 €\r\n\r\n" +
  "event: panel\rdata: one\rdata:two\rdata\r\r" +
  ":\r\n\r\n" +
  "id: 13\n\n" + // an id alone says nothing, and is kept
  "event: bye\ndata:  two spaces: and a colon\n\n" +
  "retry: 10\nunknown: x\nid: has\0nul\ndata: last\n\n" +
  "data: never ended";

const EXPECTED: SseMessage[] = [
  { event: "record", data: '{"seq": 12}', id: "12" },
  { event: "text", data: "naïve 🪢 €", id: "12.345" },
  { event: "panel", data: "one\ntwo\n", id: "12.345" },
  { event: "bye", data: " two spaces: and a colon", id: "13" },
  { event: "message", data: "last", id: "13" },
];

const AS_JSON = JSON.stringify(EXPECTED);
const BYTES = new TextEncoder().encode(SAMPLE);

function parsed(...pieces: Uint8Array[]): SseMessage[] {
  const parser = new SseParser();
  return pieces.flatMap((piece) => parser.push(piece));
}

test("a stream in one piece", () => {
  expect(parsed(BYTES)).toEqual(EXPECTED);
});

test("a stream cut anywhere, also inside a character or a CRLF, says the same", () => {
  for (let cut = 0; cut <= BYTES.length; cut++) {
    expect(parsed(BYTES.subarray(0, cut), BYTES.subarray(cut))).toEqual(EXPECTED);
  }
});

test("a stream cut in two places, wherever they are, says the same", () => {
  for (let first = 0; first <= BYTES.length; first++) {
    for (let second = first; second <= BYTES.length; second += 3) {
      const pieces = [BYTES.subarray(0, first), BYTES.subarray(first, second), BYTES.subarray(second)];
      expect(JSON.stringify(parsed(...pieces))).toBe(AS_JSON); // many thousands of them
    }
  }
});

test("a stream that comes byte by byte says the same", () => {
  expect(parsed(...Array.from(BYTES, (byte) => Uint8Array.of(byte)))).toEqual(EXPECTED);
});

test("bytes that are no UTF-8 become replacement characters, and the stream goes on", () => {
  const bytes = Uint8Array.of(...new TextEncoder().encode("data: a"), 0xff, 0x0a, 0x0a);
  expect(parsed(bytes)).toEqual([{ event: "message", data: "a\ufffd", id: "" }]);
});

test("an id from before a reconnection is kept until there is a new one", () => {
  const parser = new SseParser("7");
  expect(parser.push(new TextEncoder().encode("data: x\n\n"))[0]?.id).toBe("7");
});
