import { expect, test, vi } from "vitest";
import type { Client } from "../wire/client";
import { Refused, Unanswered } from "../wire/refused";
import { enter, takeCode } from "./session";

const ME = { by: "ana", right: "admin", run: null, how: "session" } as const;

function refused(status: number, detail: string): Refused {
  return new Refused({ type: "about:blank", title: "", status, detail, code: "" });
}

function place(hash: string): Location {
  return { hash, pathname: "/p/", search: "" } as Location;
}

test.each(["#launch=abc", "#share=abc"])("the code in %s is taken out of the URL", (hash) => {
  const replaceState = vi.fn();
  expect(takeCode(place(hash), { replaceState } as unknown as History)).toBe("abc");
  expect(replaceState).toHaveBeenCalledWith(null, "", "/p/#/");
});

test("without a code the URL stays as it is", () => {
  const replaceState = vi.fn();
  expect(takeCode(place("#/runs/a"), { replaceState } as unknown as History)).toBeNull();
  expect(replaceState).not.toHaveBeenCalled();
});

test("a code becomes a session", async () => {
  const signIn = vi.fn(async () => undefined);
  const client = { signIn, me: async () => ME } as unknown as Client;
  expect(await enter(client, "abc")).toEqual({ me: ME });
  expect(signIn).toHaveBeenCalledWith("abc");
});

test("a used link is no obstacle where the session still holds", async () => {
  const signIn = vi.fn().mockRejectedValue(refused(401, "It was used."));
  expect(await enter({ signIn, me: async () => ME } as unknown as Client, "abc")).toEqual({ me: ME });
});

test("without a session the server's words are kept", async () => {
  const signIn = vi.fn().mockRejectedValue(refused(401, "It was used."));
  const me = vi.fn().mockRejectedValue(refused(401, "Nobody."));
  expect(await enter({ signIn, me } as unknown as Client, "abc")).toEqual({ out: "It was used." });
  expect(await enter({ signIn, me } as unknown as Client, null)).toEqual({ out: "" });
});

test("a server that does not answer is not the same as one that refuses", async () => {
  const me = vi.fn().mockRejectedValue(new Unanswered(null));
  await expect(enter({ me } as unknown as Client, null)).rejects.toBeInstanceOf(Unanswered);
});
