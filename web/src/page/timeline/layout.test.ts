import { expect, test } from "vitest";
import churn from "../view/logs/churn.json";
import drafts from "../view/logs/drafts.json";
import { reduceAll, type Message } from "../view/reduce";
import { empty, type View } from "../view/view";
import { layOut } from "./layout";
import { place, segmentsOf } from "./scale";

function shown(log: unknown): View {
  return reduceAll(empty("r"), log as Message[]);
}

test("stretches fill the whole width, side by side", () => {
  const view = shown(churn);
  const { segments } = layOut(view, view.end?.at ?? 0, 50, 850);
  expect(segments[0]?.x).toBe(50);
  const last = segments.at(-1);
  expect((last?.x ?? 0) + (last?.width ?? 0)).toBeCloseTo(850);
  segments.slice(1).forEach((one, n) => {
    const before = segments[n];
    expect(one.x).toBeCloseTo((before?.x ?? 0) + (before?.width ?? 0));
  });
});

test("a pause of a night does not hide ten seconds of work", () => {
  const night = 8 * 3_600_000;
  const stretches = [
    { pace: "working", from: 0, to: 10_000 },
    { pace: "paused", from: 10_000, to: 10_000 + night },
    { pace: "working", from: 10_000 + night, to: 20_000 + night },
  ] as const;
  const [before, pause, after] = segmentsOf(stretches, 20_000 + night, 0, 600);
  expect(pause?.isSqueezed).toBe(true);
  expect(before?.width).toBeGreaterThan(150);
  expect(after?.width).toBeCloseTo(before?.width ?? 0);
  expect(place([before!, pause!, after!], 10_000 + night)).toBeCloseTo(after?.x ?? 0);
});

test("who pressed what is marked, in order, with why", () => {
  const { marks } = layOut(shown(churn), 0, 0, 800);
  expect(marks.map((mark) => mark.sign)).toEqual(["‖", "↪", "▶"]);
  expect(marks[0]?.says).toBe("ana paused it (“all of them?”)");
  expect(layOut(shown(drafts), 0, 0, 800).marks.map((mark) => mark.sign)).toEqual(["✓", "■"]);
});

test("steps at the same time have lanes of their own; ten thousand are a few bars", () => {
  const start = (step: string, at: number): Message => ({
    event: "record",
    data: { seq: 1, at_ms: at, epoch: 1, event: { type: "step_started", step, name: step }, told: { says: "" } },
  });
  const created = {
    event: "record",
    data: { seq: 1, at_ms: 0, epoch: 1, event: { type: "created", agent: "a", thread: "t" }, told: { says: "" } },
  } as const;
  const two = reduceAll(empty("r"), [created, start("a", 1), start("b", 2)]);
  expect(layOut(two, 100, 0, 800).bars.map((bar) => bar.lane)).toEqual([0, 1]);
  const many: Message[] = [created];
  for (let n = 0; n < 10_000; n++) {
    many.push(start(`s${n}`, n));
    many.push({
      event: "record",
      data: { seq: 1, at_ms: n, epoch: 1, event: { type: "step_finished", step: `s${n}` }, told: { says: "" } },
    });
  }
  expect(layOut(reduceAll(empty("r"), many), 10_000, 0, 800).bars.length).toBeLessThan(900);
});
