import { expect, test } from "vitest";
import { objectOf, problemOf } from "./edited";

test("arguments are edited as the server wrote them: no number is rounded", () => {
  const text = objectOf([
    ["account", "9007199254740993"],
    ["rate", "1.0"],
    ['a "name"', '{"to":["ana"]}'],
  ]);
  expect(text).toBe('{\n  "account": 9007199254740993,\n  "rate": 1.0,\n  "a \\"name\\"": {"to":["ana"]}\n}');
  expect(problemOf(text)).toBe("");
  expect(objectOf([])).toBe("{}");
});

test("what is no object of arguments is refused, with the reason", () => {
  expect(problemOf("[1]")).toContain("given by name");
  expect(problemOf("null")).toContain("given by name");
  expect(problemOf('{"to": ')).not.toBe("");
  expect(problemOf('{}, "call": "another"')).not.toBe("");
});
