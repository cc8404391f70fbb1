import { expect, test } from "vitest";
import { doubtsIn } from "./doubts";

test("only a card that lists steps has any", () => {
  const one = { step: "pay-1", name: "pay", known: "may have happened", args: [7] };
  expect(doubtsIn({ choices: ["happened"], doubts: [one, "no", { step: 1 }] })).toEqual([one]);
  for (const other of [null, "text", [one], {}, { doubts: "x" }]) expect(doubtsIn(other)).toEqual([]);
});
