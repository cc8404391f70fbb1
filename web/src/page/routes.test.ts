import { expect, test } from "vitest";
import { hrefOf, routeOf } from "./routes";

test.each(["#/", "#/inbox", "#/start", "#/runs/a-1_B"])("%s leads there and back", (hash) => {
  expect(hrefOf(routeOf(hash))).toBe(hash);
});

test.each(["", "#", "#/runs/", "#/runs/../x", "#/runs/a/b", "#/runs/%2e%2e", "#/nowhere"])(
  "%s is the list",
  (hash) => {
    expect(routeOf(hash)).toEqual({ at: "list" });
  },
);
