import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Client } from "./client";
import { Refused } from "./refused";
import { follow } from "./stream";

/** Each connection gives one of these, then ends; the last one stays open. */
type Connection = string | number | Error;

function server(connections: Connection[]): { client: Client; asked: string[] } {
  const asked: string[] = [];
  const answer = async (url: URL | RequestInfo, request: RequestInit = {}): Promise<Response> => {
    asked.push(new URL(String(url)).search);
    const next = connections.shift();
    if (next instanceof Error) throw next;
    if (typeof next === "number") return new Response("{}", { status: next });
    return new Response(body(next, request.signal, connections.length === 0));
  };
  return { client: new Client("http://host/", { fetch: answer }), asked };
}

function body(text: string | undefined, signal: AbortSignal | null | undefined, stays: boolean): ReadableStream {
  return new ReadableStream({
    start(stream) {
      stream.enqueue(new TextEncoder().encode(text ?? ""));
      if (stays) signal?.addEventListener("abort", () => stream.error(signal.reason));
      else stream.close();
    },
  });
}

const record = (seq: number): string => `event: record\nid: ${seq}\ndata: {"seq":${seq}}\n\n`;

async function followed(connections: Connection[], forMs = 30_000) {
  const { client, asked } = server(connections);
  const stop = new AbortController();
  const seen: number[] = [];
  const connected: boolean[] = [];
  let opened = 0;
  const following = follow(client, {
    path: "runs/r1/events",
    after: "0",
    on: { record: (rec) => seen.push(rec.seq) },
    onOpen: () => (opened += 1),
    onConnected: (is) => connected.push(is),
    signal: stop.signal,
  });
  const outcome = following.then(
    () => "ended",
    (error: unknown) => error,
  );
  await vi.advanceTimersByTimeAsync(forMs);
  stop.abort();
  return { outcome: await outcome, seen, connected, asked, opened };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("after a cut it goes on from the last id, and nothing is seen twice", async () => {
  const { outcome, seen, asked, connected, opened } = await followed([record(1) + record(2), record(3), record(4)]);
  expect(seen).toEqual([1, 2, 3, 4]);
  expect(asked).toEqual(["?after=0", "?after=2", "?after=3"]);
  expect(connected).toEqual([]); // each was back within a second
  expect(opened).toBe(3);
  expect(outcome).toBe("ended");
});

test("a message that was cut in the middle is not taken, and comes again", async () => {
  const { seen, asked } = await followed([record(1) + record(2).slice(0, -1), record(2)]);
  expect(seen).toEqual([1, 2]);
  expect(asked).toEqual(["?after=0", "?after=1"]);
});

test("a bye is a reason to come back", async () => {
  const bye = 'event: bye\ndata: {"why":"shutdown"}\n\n';
  const { seen, asked } = await followed([record(1) + bye + record(9), record(2)]);
  expect(seen).toEqual([1, 2]);
  expect(asked).toEqual(["?after=0", "?after=1"]);
});

test("a server that is gone is tried again ever more slowly, and that it is lost is said once", async () => {
  const gone = Array.from({ length: 8 }, () => new TypeError("refused"));
  const { seen, asked, connected } = await followed([...gone, record(1)]);
  expect(seen).toEqual([1]);
  expect(asked).toHaveLength(9); // 0.25 0.5 1 2 4 5 5 5 s: within the half minute
  expect(connected).toEqual([false, true]);
});

test("a server that will not have us ends it", async () => {
  const { outcome, asked } = await followed([404]);
  expect(outcome).toBeInstanceOf(Refused);
  expect(asked).toHaveLength(1);
});

test("whoever has been sent away is not told that it is tried again", async () => {
  const { outcome, connected } = await followed([record(1), 404]);
  expect(outcome).toBeInstanceOf(Refused);
  expect(connected).toEqual([]);
});

test("a server that is busy does not end it", async () => {
  const { seen } = await followed([503, 429, record(1)]);
  expect(seen).toEqual([1]);
});

test("a connection without a sign of life is given up", async () => {
  const { asked } = await followed([record(1)], 45_000);
  expect(asked).toEqual(["?after=0", "?after=1"]);
});

test("a handler that throws does not end the stream", async () => {
  const { client } = server([record(1) + record(2)]);
  const stop = new AbortController();
  const complaint = vi.spyOn(console, "error").mockReturnValue();
  const seen: number[] = [];
  const record1 = (rec: { seq: number }): void => {
    seen.push(rec.seq);
    if (rec.seq === 1) throw new Error("bug");
  };
  const following = follow(client, { path: "events", on: { record: record1 }, signal: stop.signal });
  await vi.advanceTimersByTimeAsync(10);
  stop.abort();
  await following;
  expect(seen).toEqual([1, 2]);
  expect(complaint).toHaveBeenCalledOnce();
});

test("nobody looks: it closes; somebody looks again: it goes on from the last id, and was never lost", async () => {
  const page = Object.assign(new EventTarget(), { visibilityState: "visible", baseURI: "http://host/" });
  vi.stubGlobal("document", page);
  const { client, asked } = server([record(1), record(2)]);
  const stop = new AbortController();
  const connected: boolean[] = [];
  const onConnected = (is: boolean): void => void connected.push(is);
  const following = follow(client, { path: "events", on: {}, onConnected, signal: stop.signal });
  const turn = async (visibilityState: string, forMs: number): Promise<void> => {
    page.visibilityState = visibilityState;
    page.dispatchEvent(new Event("visibilitychange"));
    await vi.advanceTimersByTimeAsync(forMs);
  };
  await turn("visible", 1_000); // the first connection has ended; the second stays open
  await turn("hidden", 60_000);
  expect(asked).toHaveLength(2);
  await turn("visible", 10);
  expect(asked.at(-1)).toBe("?after=2");
  expect(connected).toEqual([]);
  stop.abort();
  await following;
  vi.unstubAllGlobals();
});
