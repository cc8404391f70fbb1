import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Verbatim } from "./asking";
import { Client } from "./client";
import { Refused, Unanswered } from "./refused";

interface Sent {
  url: string;
  method: string;
  headers: Record<string, string>;
  body: Record<string, unknown>;
}

function server(...answers: (Response | Error)[]): { client: (token?: string) => Client; sent: Sent[] } {
  const sent: Sent[] = [];
  const answer = async (url: URL | RequestInfo, request: RequestInit = {}): Promise<Response> => {
    const body = typeof request.body === "string" ? (JSON.parse(request.body) as Record<string, unknown>) : {};
    const headers = request.headers as Record<string, string>;
    sent.push({ url: String(url), method: request.method ?? "GET", headers, body });
    const next = answers.shift() ?? new TypeError("no more answers");
    if (next instanceof Error) throw next;
    return next;
  };
  return { client: (token) => new Client("http://host/agents", { token, fetch: answer }), sent };
}

const applied = { verdict: "applied", seq: 4, state: "pausing" };
const tooLate = { verdict: "too_late", seq: 9, state: "completed", message: "Too late: it had completed." };

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

async function soon<T>(result: Promise<T>): Promise<T> {
  result.catch(() => undefined);
  await vi.runAllTimersAsync();
  return result;
}

test("a command is a POST below the base, with the header and a key", async () => {
  const { client, sent } = server(Response.json(applied));
  expect(await client().command("r1", "pause", { reason: "wrong path" })).toEqual(applied);
  expect(sent[0]).toMatchObject({ url: "http://host/agents/runs/r1/pause", method: "POST" });
  expect(sent[0]?.headers).toMatchObject({ "Content-Type": "application/json", "X-Pullcord": "1" });
  expect(sent[0]?.headers).not.toHaveProperty("Authorization");
  expect(sent[0]?.body).toEqual({ reason: "wrong path", key: expect.stringMatching(/^[0-9a-f]{32}$/) as string });
});

test("a lost answer is asked for again with the same key", async () => {
  const { client, sent } = server(new TypeError("reset"), new Response("", { status: 503 }), Response.json(applied));
  expect(await soon(client().command("r1", "cancel"))).toEqual(applied);
  expect(new Set(sent.map((one) => one.body["key"])).size).toBe(1);
  expect(sent).toHaveLength(3);
});

test("JSON that somebody wrote is sent as it is: its numbers are not rounded", async () => {
  const bodies: unknown[] = [];
  const answer = async (_: URL | RequestInfo, request: RequestInit = {}): Promise<Response> => {
    bodies.push(request.body);
    return Response.json(applied);
  };
  const args = new Verbatim('{"account": 9007199254740993, "rate": 1.0}');
  await new Client("http://host/", { fetch: answer }).post("runs/r1/approve", { call: 'a "b"', left: undefined, args });
  expect(bodies).toEqual(['{"call":"a \\"b\\"","args":{"account": 9007199254740993, "rate": 1.0}}']);
  expect(() => new Verbatim('{}, "call": "another"')).toThrow();
});

test("two presses have two keys", async () => {
  const { client, sent } = server(Response.json(applied), Response.json(applied));
  const one = client();
  await one.command("r1", "pause");
  await one.command("r1", "pause");
  expect(sent[0]?.body["key"]).not.toBe(sent[1]?.body["key"]);
});

test("a server that never answers is given up, and said so", async () => {
  const { client, sent } = server();
  await expect(soon(client().command("r1", "pause"))).rejects.toBeInstanceOf(Unanswered);
  expect(sent).toHaveLength(5);
});

test("a refusal carries the server's sentence and the ack, and is not asked again", async () => {
  const problem = { type: "about:blank", title: "Conflict", status: 409, detail: tooLate.message, code: "too_late", ack: tooLate };
  const { client, sent } = server(Response.json(problem, { status: 409 }));
  const refused = await soon(client().command("r1", "pause")).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(Refused);
  expect(refused).toMatchObject({ status: 409, code: "too_late", detail: tooLate.message, ack: tooLate });
  expect(sent).toHaveLength(1);
});

test("a refusal that is no JSON still says something", async () => {
  const { client } = server(new Response("<html>", { status: 404, statusText: "Not Found" }));
  await expect(client().me()).rejects.toMatchObject({ status: 404, detail: "The server answered 404 (Not Found)." });
});

test("a token is sent with everything", async () => {
  const { client, sent } = server(Response.json({ runs: [] }), new Response(null, { status: 204 }));
  const one = client("abc");
  await one.runs({ state: ["paused", "waiting"], limit: 5 });
  expect(await one.signOut()).toBeUndefined();
  expect(sent.map((request) => request.headers["Authorization"])).toEqual(["Bearer abc", "Bearer abc"]);
  expect(sent[0]?.url).toBe("http://host/agents/runs?state=paused&state=waiting&limit=5");
});

test("beginning a run is asked once", async () => {
  const { client, sent } = server(new TypeError("reset"));
  await expect(soon(client().begin("r1", "continue"))).rejects.toBeInstanceOf(Unanswered);
  expect(sent).toHaveLength(1);
});

test.each(["", "..", "../grants", "a/b", "a?b", "%2e%2e", "x".repeat(65)])("%j is no run, and nothing is sent", async (run) => {
  const { client, sent } = server(Response.json({}));
  await expect(client().run(run)).rejects.toMatchObject({ status: 404, code: "invalid_id" });
  await expect(client().command(run, "cancel")).rejects.toBeInstanceOf(Refused);
  expect(sent).toEqual([]);
});

test("the kill switch is engaged for everything, and released for what it was engaged for", async () => {
  const { client, sent } = server(...[1, 2, 3].map(() => Response.json({ engaged: [], held: [] })));
  await client().engage("leak");
  await client().release({ scope: "all", name: "" }, "mended");
  await client().release({ scope: "thread", name: "q3" }, "mended");
  expect(sent.map(({ url, body }) => [url.split("/agents/")[1], body])).toEqual([
    ["kill-switch/engage", { reason: "leak" }],
    ["kill-switch/release", { reason: "mended" }],
    ["kill-switch/release", { reason: "mended", thread: "q3" }],
  ]);
});
