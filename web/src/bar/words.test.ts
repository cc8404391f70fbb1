import { expect, test } from "vitest";
import { panelOf } from "./panel.sample";
import { about, byWhom, clock, dollars, elapsed, timeOfDay, timesInWords } from "./words";

test("the clock has hours only when there are any", () => {
  expect([0, 999, 42_000, 3_599_999, 3_600_000, -5].map(clock)).toEqual([
    "00:00",
    "00:00",
    "00:42",
    "59:59",
    "1:00:00",
    "00:00",
  ]);
});

test("money that is less than a cent is not nothing", () => {
  expect([0, 1_234, 310_000, 12_345_678].map(dollars)).toEqual(["$0.00", "$0.0012", "$0.31", "$12.35"]);
});

test("only what ticks grows", () => {
  const panel = panelOf();
  expect(elapsed(panel, "working_ms", 1_000)).toBe(43_000);
  expect(elapsed(panel, "waiting_ms", 1_000)).toBe(3_000);
  expect(timesInWords(panel, 1_000)).toBe("00:43 working, 00:03 waiting");
});

test("a time of day is the same here as anywhere else", () => {
  expect(timeOfDay(new Date(2026, 10, 17, 9, 54, 10).getTime())).toBe("09:54:10");
  expect(timeOfDay(new Date(2026, 10, 17, 21, 54, 10).getTime())).toBe("21:54:10");
});

test("who it was", () => {
  expect(byWhom(panelOf(), "ana")).toBe("");
  expect(byWhom(panelOf({ by: "bo", who: "by bo" }), "ana")).toBe("by bo");
  expect(byWhom(panelOf({ by: "ana", who: "by ana" }), "ana")).toBe("by you");
  expect(byWhom(panelOf({ by: "limits", who: "by its limits" }), "ana")).toBe("by its limits");
});

test("while pausing, the hold comes before what it waits for", () => {
  const panel = panelOf({ state: "pausing", by: "ana", doing: "letting the answer finish", reason: "wrong path" });
  expect(about(panel, 6_100)).toEqual(["cut in 7 s", "letting the answer finish", "“wrong path”"]);
});

test("a failed run says why", () => {
  expect(about(panelOf({ state: "failed", ended: true, doing: "", error: "no rows" }), null)).toEqual(["no rows"]);
});
