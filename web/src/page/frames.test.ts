import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Frames } from "./frames";

let frame: ((now: number) => void) | null = null;

beforeEach(() => {
  vi.stubGlobal("requestAnimationFrame", (draw: (now: number) => void) => {
    frame = draw;
    return 1;
  });
});
afterEach(() => vi.unstubAllGlobals());

function draw(now: number): void {
  const due = frame;
  frame = null;
  due?.(now);
}

test("what comes between two drawings is handed on together", () => {
  const seen: number[][] = [];
  const frames = new Frames<number>((batch) => seen.push(batch));
  frames.push(1);
  frames.push(2);
  expect(seen).toEqual([]);
  draw(1000);
  expect(seen).toEqual([[1, 2]]);
  expect(frame).toBeNull();
});

test("a flood has the frames between to itself, and is handed on in order", () => {
  const seen: number[][] = [];
  const frames = new Frames<number>((batch) => seen.push(batch));
  for (let n = 0; n < 2500; n++) frames.push(n);
  for (const now of [1000, 1016, 1032, 1048, 1064]) draw(now);
  expect(seen.map((batch) => batch.length)).toEqual([1000, 1000, 500]);
  expect(seen.flat()).toEqual(Array.from({ length: 2500 }, (_, n) => n));
});

test("what was forgotten is not handed on", () => {
  const seen: number[][] = [];
  const frames = new Frames<number>((batch) => seen.push(batch));
  frames.push(1);
  frames.clear();
  draw(1000);
  expect(seen).toEqual([]);
});
