/** What is shown of one run. A value: made from messages by `reduce`, changed by nobody else. */
import type { Effect, Json, Rung, RunIn, Source } from "../../wire/events";
import type { Panel } from "../../wire/types";

/** One line of the report: what it is, and where the rest of it is kept. */
export type Entry =
  | { kind: "step"; id: string }
  | { kind: "text"; id: string }
  | { kind: "note"; id: number }
  | { kind: "told"; id: number }
  | { kind: "question"; id: string }
  | { kind: "child"; id: string };

export type ItemStatus = "queued" | "running" | "done" | "interrupted";

/** An item of a plan with everything that happened while it was under way. Without a `plan`: what
 * happened before, between and after plans. */
export interface Section {
  key: string;
  plan: string;
  item: string;
  number: number; // in its plan, from 1
  title: string; // as it was first written
  text: string; // as it is now
  rewrites: readonly { before: string; after: string }[];
  status: ItemStatus;
  from: number;
  to: number; // 0: not over
  effects: number; // steps in it that can be undone and were done
  undone: number; // how many of those were undone
  entries: readonly Entry[];
}

export type StepStatus = "running" | "done" | "failed" | "interrupted" | "in_doubt" | "not_started";

export interface Attempt {
  number: number;
  from: number;
  to: number; // 0: under way
  status: StepStatus;
  says: string; // its error, or why nobody knows
  rung: Rung;
  ladder: Readonly<Record<string, number>>;
}

export interface Spend {
  usdMicros: number;
  tokensIn: number;
  tokensOut: number;
  unknown: number; // calls whose price nobody knows; never counted as free
  estimated: boolean;
}

export interface Step {
  id: string;
  name: string;
  tool: string;
  model: string;
  effect: Effect;
  undoable: boolean;
  runIn: RunIn;
  status: StepStatus;
  undo: "" | "undoing" | "undone" | "failed";
  undoSays: string;
  args: Json;
  result: Json;
  attempts: readonly Attempt[];
  from: number;
  to: number; // 0: under way
  output: readonly string[]; // the parts of text it has put out
  spend: Spend | null;
  approval: string;
  settled: string; // what a person has said became of it
  late: boolean; // it did happen, after it was decided otherwise
  section: number;
}

/** Text that was said, thought, or put out by a tool. */
export interface Part {
  id: string;
  kind: "said" | "thought" | "output";
  text: string;
  points: number; // its length as the wire counts it, in code points
  state: "live" | "whole" | "cut";
  /** As many characters are shown: what had been when somebody stopped the run. null: all. */
  limit: number | null;
  from: number;
  to: number;
}

/** Something that happened to the run as a whole: mostly, that somebody pressed something. */
export interface Note {
  seq: number;
  at: number;
  sign: string;
  by: string;
  via: string; // the surface it came by
  source: Source | "";
  says: string;
  reason: string;
  took: number; // ms until it was in effect; -1: not, or not yet, or nothing to wait for
  rung: Rung;
  weight: "press" | "plain" | "faint";
}

export interface Told {
  seq: number;
  at: number;
  by: string;
  text: string;
  reason: string;
  outcome: "queued" | "delivered" | "returned" | "withdrawn";
  item: string; // of a plan, that it has rewritten
  rewrote: string; // what that item said before
}

export interface Question {
  id: string;
  kind: "question" | "approval" | "timer" | "doubt";
  text: string;
  details: Json;
  tool: string;
  step: string;
  at: number;
  status: "open" | "answered" | "withdrawn";
  verdict: string;
  value: Json;
  by: string;
  reason: string;
  settledAt: number;
}

export interface Child {
  id: string;
  agent: string;
  detached: boolean;
  state: string; // empty while it lives
}

export type Pace = "queued" | "working" | "pausing" | "paused" | "waiting" | "stopping" | "cancelling";

/** A time during which a run was in one state. */
export interface Stretch {
  pace: Pace;
  from: number;
  to: number; // 0: still
}

export interface End {
  state: "completed" | "cancelled" | "failed" | "stopped";
  at: number;
  result: Json;
  error: string;
  leaves: readonly string[];
}

export interface View {
  run: string;
  seq: number; // of the last record
  at: number; // and when it was written
  panel: Panel | null;
  by: string; // who started it
  forkedFrom: string;
  sections: readonly Section[];
  current: number; // the section where what happens next belongs
  steps: ReadonlyMap<string, Step>;
  parts: ReadonlyMap<string, Part>;
  notes: ReadonlyMap<number, Note>;
  told: ReadonlyMap<number, Told>;
  questions: ReadonlyMap<string, Question>;
  children: ReadonlyMap<string, Child>;
  attention: ReadonlyMap<string, string>;
  signals: readonly string[]; // that its limits wait for, and nobody has given
  outputOf: ReadonlyMap<string, string>; // a part of text → the step that puts it out
  stretches: readonly Stretch[];
  spend: Spend;
  stop: { seq: number; at: number } | null; // the pause or cancel that is not in effect yet
  end: End | null;
}

export const NO_SPEND: Spend = { usdMicros: 0, tokensIn: 0, tokensOut: 0, unknown: 0, estimated: false };

export function between(key: string): Section {
  const nothing = { plan: "", item: "", number: 0, title: "", text: "", rewrites: [] };
  return { key, ...nothing, status: "running", from: 0, to: 0, effects: 0, undone: 0, entries: [] };
}

export function empty(run: string): View {
  return {
    run,
    seq: 0,
    at: 0,
    panel: null,
    by: "",
    forkedFrom: "",
    sections: [between("start")],
    current: 0,
    steps: new Map(),
    parts: new Map(),
    notes: new Map(),
    told: new Map(),
    questions: new Map(),
    children: new Map(),
    attention: new Map(),
    signals: [],
    outputOf: new Map(),
    stretches: [],
    spend: NO_SPEND,
    stop: null,
    end: null,
  };
}
