import { expect, test } from "vitest";
import { duration } from "./words";

test.each([
  [-5, "0 ms"],
  [999.4, "999 ms"],
  [999.6, "1.0 s"],
  [4_240, "4.2 s"],
  [59_940, "59.9 s"],
  [59_960, "00:59"],
  [190_000, "03:10"],
])("%f ms is %s", (ms, says) => {
  expect(duration(ms)).toBe(says);
});
