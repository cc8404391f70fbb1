import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Panel } from "../wire/types";
import { Trickle } from "./trickle";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function panel(run: string, seq: number, state = "running"): Panel {
  return { run, seq, state, wants: 0, attention: 0 } as Panel;
}

test("a panel with another state comes at once; of the others only the last", () => {
  const seen: string[] = [];
  const panels = new Trickle((batch) => seen.push(...batch.map(({ run, seq }) => `${run}${seq}`)));
  panels.push(panel("a", 1));
  expect(seen).toEqual(["a1"]);
  panels.push(panel("a", 2));
  panels.push(panel("a", 3));
  expect(seen).toEqual(["a1"]);
  vi.advanceTimersByTime(100);
  expect(seen).toEqual(["a1", "a3"]);
  panels.push(panel("a", 4));
  panels.push(panel("a", 5, "pausing"));
  expect(seen).toEqual(["a1", "a3", "a5"]);
});
