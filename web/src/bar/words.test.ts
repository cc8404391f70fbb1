import { expect, test } from "vitest";
import { panelOf } from "./panel.sample";
import { about, byWhom, clock, costInWords, dollars, elapsed, readings, tallyInWords, timeOfDay, timesInWords } from "./words";

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
  expect(timesInWords(panel, 1_000)).toBe("00:43 working · 00:03 waiting · 00:00 paused · 00:00 queued");
});

test("steps and spend are shown against their caps, and a near cap is marked", () => {
  const meters = [
    { cap: "usd" as const, used: 1.9, of: 2, says: "$1.90 of $2.00" },
    { cap: "steps" as const, used: 3, of: 40, says: "3 of 40 steps" },
    { cap: "tokens" as const, used: 10, of: 1_000, says: "10 of 1,000 tokens" },
    { cap: "tool_calls" as const, used: 9, of: 10, says: "9 of 10 tool calls" },
  ];
  expect(readings(panelOf({ meters })).map(({ says, isNear }) => [says, isNear])).toEqual([
    ["9 of 10 tool calls", true],
    ["3 of 40 steps", false],
    ["$1.90 of $2.00", true],
  ]);
});

test("without caps it is what was used", () => {
  expect(readings(panelOf({ steps: 1 })).map((one) => one.says)).toEqual(["1 step", "$0.31"]);
});

test("a price that nobody knows is said", () => {
  expect(costInWords({ usd_micros: 0, tokens_in: 1_000, tokens_out: 2, unknown_calls: 2 })).toBe(
    "1,000 tokens in · 2 out · the price of 2 calls is not known",
  );
});

test("the tally says four things always, and the others if there are any", () => {
  const { tally } = panelOf();
  expect(tallyInWords(tally)).toBe("2 done · 1 undone · 0 in doubt · 1 not attempted");
  expect(tallyInWords({ ...tally, failed: 1 })).toBe("2 done · 1 undone · 0 in doubt · 1 not attempted · 1 failed");
});

test("what was done and has no undo is counted beside what was done", () => {
  const { tally } = panelOf();
  expect(tallyInWords({ ...tally, no_undo: 1 })).toMatch(/^2 done \(1 has no undo\) · 1 undone · /);
  expect(tallyInWords({ ...tally, no_undo: 2 })).toMatch(/^2 done \(2 have no undo\) · /);
});

test("a time of day is the same here as anywhere else", () => {
  expect(timeOfDay(new Date(2026, 10, 17, 9, 54, 10).getTime())).toBe("09:54:10");
  expect(timeOfDay(new Date(2026, 10, 17, 21, 54, 10).getTime())).toBe("21:54:10");
});

test("who it was", () => {
  expect(byWhom(panelOf(), "ana")).toBe("");
  expect(byWhom(panelOf({ by: "bo", source: "person" }), "ana")).toBe("by bo");
  expect(byWhom(panelOf({ by: "ana", source: "person" }), "ana")).toBe("by you");
  expect(byWhom(panelOf({ by: "limits", source: "limit" }), "ana")).toBe("by its limits");
  expect(byWhom(panelOf({ by: "the kill switch (ana)", source: "kill_switch" }), "ana")).toBe("by the kill switch (ana)");
});

test("while pausing, the hold comes before what it waits for", () => {
  const panel = panelOf({ state: "pausing", by: "ana", doing: "letting the answer finish", reason: "wrong path" });
  expect(about(panel, 6_100)).toEqual(["cut in 7 s", "letting the answer finish", "“wrong path”"]);
});

test("a failed run says why", () => {
  expect(about(panelOf({ state: "failed", ended: true, doing: "", error: "no rows" }), null)).toEqual(["no rows"]);
});
