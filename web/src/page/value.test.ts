import { expect, test } from "vitest";
import { asText, readable } from "./value";

test("text is shown as text, all else as JSON", () => {
  expect(asText("a\nb")).toBe("a\nb");
  expect(asText({ a: 1 })).toBe('{\n  "a": 1\n}');
});

test("what a command has put out has its lines", () => {
  expect(readable({ status: 0, stdout: "one\ntwo\n" })).toBe("status: 0\nstdout:\none\ntwo");
  expect(readable({ status: 0, stdout: "one" })).toBe('{\n  "status": 0,\n  "stdout": "one"\n}');
});
