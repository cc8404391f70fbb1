/** The picture of a run, as numbers: what is where. Knows nothing of the document. */
import type { Answer, View } from "../view/view";
import { duration } from "../words";
import { place, segmentsOf, type Segment } from "./scale";

export interface Bar {
  x: number;
  width: number;
  lane: number;
  kind: string; // model, or what became of a step
  name: string;
  count: number; // more than one: so many steps, too close to tell apart
}

export interface Mark {
  x: number;
  signX: number; // beside the one before it, if that is too close
  sign: string;
  says: string;
}

export interface Picture {
  left: number;
  width: number;
  segments: Segment[];
  marks: Mark[];
  bars: Bar[];
  lanes: string[]; // their names
  bursts: { x: number; width: number; kind: string }[];
  summary: string;
}

const TOOL_LANES = 4;
const NARROW = 2;
const SIGN_WIDTH = 12;

export function layOut(view: View, now: number, left: number, width: number): Picture {
  const segments = segmentsOf(view.stretches, now, left, width - left);
  const at = (ms: number): number => place(segments, ms);
  const { bars, lanes } = barsOf(view, now, at);
  const marks = marksOf(view, at);
  return {
    left,
    width,
    segments,
    marks,
    bars,
    lanes,
    bursts: burstsOf(view, at),
    summary: summaryOf(view, segments, marks),
  };
}

function barsOf(view: View, now: number, at: (ms: number) => number): { bars: Bar[]; lanes: string[] } {
  const models = [...view.steps.values()].some((step) => step.isModel) ? ["model"] : [];
  const bars: Bar[] = [];
  const ends: number[] = []; // of each tool lane, the x where it is free again
  const last: (Bar | undefined)[] = [];
  for (const step of view.steps.values()) {
    const x = at(step.from);
    const width = Math.max(1, at(step.to || now) - x);
    const kind = step.isModel ? "model" : step.undo === "undone" ? "undone" : step.status;
    const free = ends.findIndex((end) => end <= x + 0.5);
    const tool = free >= 0 ? free : Math.min(ends.length, TOOL_LANES - 1);
    const lane = step.isModel ? 0 : tool + models.length;
    if (!step.isModel) ends[tool] = Math.max(ends[tool] ?? 0, x + width);
    const before = last[lane];
    if (before && before.kind === kind && width < NARROW && x - (before.x + before.width) < 1) {
      before.width = Math.max(before.width, x + width - before.x);
      before.count += 1;
      continue;
    }
    const bar: Bar = { x, width, lane, kind, name: step.name, count: 1 };
    last[lane] = bar;
    bars.push(bar);
  }
  return { bars, lanes: [...models, ...ends.map((_, lane) => (lane ? "" : "steps"))] };
}

function marksOf(view: View, at: (ms: number) => number): Mark[] {
  const pressed = [...view.notes.values()]
    .filter((note) => note.weight === "press")
    .map((note) => ({ at: note.at, sign: note.sign, says: said(note) }));
  const told = [...view.told.values()].map((one) => ({ at: one.at, sign: "↪", says: said({ ...one, says: one.text }) }));
  const answered = [...view.questions.values()].flatMap(({ kind, answer, settledAt, status }) =>
    answer && status === "answered" && kind !== "timer"
      ? [{ at: settledAt, sign: answer.sign ?? "✓", says: said(answer) }]
      : [],
  );
  let free = 0;
  return [...pressed, ...told, ...answered]
    .sort((a, b) => a.at - b.at)
    .map(({ at: when, sign, says }) => {
      const x = at(when);
      const signX = Math.max(x, free);
      free = signX + SIGN_WIDTH;
      return { x, signX, sign, says };
    });
}

function said({ by, says, reason }: Answer): string {
  return `${by ? `${by} ` : ""}${says}${reason ? ` (“${reason}”)` : ""}`;
}

function burstsOf(view: View, at: (ms: number) => number): Picture["bursts"] {
  return [...view.parts.values()].map((part) => {
    const x = at(part.from);
    return { x, width: Math.max(1.5, at(part.to) - x), kind: part.state === "cut" ? "cut" : part.kind };
  });
}

function summaryOf(view: View, segments: readonly Segment[], marks: readonly Mark[]): string {
  const times = new Map<string, number>();
  for (const { stretch, from, to } of segments)
    times.set(stretch.pace, (times.get(stretch.pace) ?? 0) + to - from);
  const spent = [...times].map(([pace, ms]) => `${pace} ${duration(ms)}`).join(", ");
  const pressed = marks
    .slice(0, 50)
    .map((mark) => mark.says)
    .join("; ");
  return `${view.steps.size} steps. ${spent}.${pressed ? ` ${pressed}.` : ""}`;
}
