import { expect, test } from "vitest";
import { foldsOf } from "./folding";

test("whatever is long in a call is folded until somebody shows it: names as well as values", () => {
  const long = "x".repeat(201);
  const card = { tool: long, shown: [["to", '"ana"'], [long, "1"], ["note", long]] as [string, string][] };
  expect([...foldsOf(card, [])]).toEqual(["tool", "name 1", "value 2"]);
  expect([...foldsOf(card, ["tool", "value 2"])]).toEqual(["name 1"]);
  expect([...foldsOf(card, ["tool", "value 2", "name 1"])]).toEqual([]);
});
