import { afterEach, expect, test, vi } from "vitest";
import { Client } from "./client";
import { dropKey, keepKey, keyOf } from "./key";

const HERE = new URL("http://127.0.0.1:8765/p/");

function browser(storage: Partial<Storage>): void {
  vi.stubGlobal("location", { origin: HERE.origin });
  vi.stubGlobal("localStorage", storage);
}

function kept(): Partial<Storage> {
  const all = new Map<string, string>();
  return {
    getItem: (name) => all.get(name) ?? null,
    setItem: (name, value) => void all.set(name, value),
    removeItem: (name) => void all.delete(name),
  };
}

afterEach(() => {
  dropKey(HERE);
  vi.unstubAllGlobals();
});

test("the key is sent to its own origin and to no other", () => {
  browser(kept());
  keepKey(HERE, "k");
  expect(keyOf(HERE)).toBe("k");
  expect(keyOf(new URL("http://127.0.0.1:9999/p/"))).toBeUndefined();
  expect(keyOf(new URL("http://127.0.0.1:8765/other/"))).toBeUndefined();
});

test("a browser that keeps nothing has it until the page is left", () => {
  const refuses = (): never => {
    throw new Error("denied");
  };
  browser({ getItem: refuses, setItem: refuses, removeItem: refuses });
  keepKey(HERE, "k");
  expect(keyOf(HERE)).toBe("k");
  dropKey(HERE);
  expect(keyOf(HERE)).toBeUndefined();
});

test("who signs in sends it from then on, and who signs out no more", async () => {
  browser(kept());
  const sent: (string | undefined)[] = [];
  const fetched = vi.fn(async (url: URL | RequestInfo, request?: RequestInit) => {
    sent.push((request?.headers as Record<string, string>)["X-Pullcord-Key"]);
    return new Response(String(url).endsWith("/session") ? '{"key":"k"}' : "{}");
  });
  const client = new Client(HERE, { fetch: fetched as unknown as typeof fetch });
  await client.signIn("code");
  await client.me();
  await client.signOut();
  await client.me();
  expect(sent).toEqual([undefined, "k", "k", undefined]);
  const elsewhere = new Client(HERE, { token: "t", fetch: fetched as unknown as typeof fetch });
  keepKey(HERE, "k");
  await elsewhere.me();
  expect(sent.at(-1)).toBeUndefined();
});
