import { expect, test } from "vitest";
import { limitsOf, read } from "./given";

test.each([
  ["", null],
  ["  ", null],
  ["churn for Q3", "churn for Q3"],
  ['{"quarter": 3}', { quarter: 3 }],
  ["[1, 2]", [1, 2]],
  ["3", 3],
  ["true", true],
  ["3 reports", "3 reports"],
  ['{"quarter": 3', '{"quarter": 3'],
])("%j is read as %j", (typed, value) => {
  expect(read(typed).value).toEqual(value);
});

test("what is no number goes to the server as it is", () => {
  expect(limitsOf(" 2,5 ", "40")).toEqual({ usd: 2.5, steps: 40 });
  expect(limitsOf("two", "")).toEqual({ usd: "two" });
});
