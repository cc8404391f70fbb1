/** What is shown of one run. A value: made from messages by `reduce`, changed by nobody else. */
import type { Json } from "../../wire/events";
import type { Panel, Told as Wire } from "../../wire/types";

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
  says: string;
  facts: readonly string[];
  trouble: string; // its error, or why nobody knows, whole
}

/** The words are those of the last record about it. */
export interface Step {
  id: string;
  name: string;
  isModel: boolean;
  undoable: boolean;
  status: StepStatus;
  undo: "" | "undoing" | "undone" | "failed";
  sign: string;
  says: string;
  facts: readonly string[];
  policy: readonly string[]; // what it has declared, before it began
  bills: readonly string[];
  args: Json;
  result: Json;
  attempts: readonly Attempt[];
  from: number;
  to: number; // 0: under way
  output: readonly string[]; // the parts of text it has put out
  approval: string;
  settled: string; // what a person has said became of it
  section: number;
}

/** Text that was said, thought, or put out by a tool. */
export interface Part {
  id: string;
  kind: "said" | "thought" | "output";
  text: string;
  points: number; // its length as the wire counts it, in code points
  state: "live" | "whole" | "cut";
  mark: string; // where it was cut
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
  says: string;
  reason: string;
  then: string; // that it is in effect
  how: readonly string[];
  took: number; // ms until then
  weight: "press" | "plain" | "faint";
}

export interface Told {
  seq: number;
  at: number;
  by: string;
  text: string;
  reason: string;
  says: string; // what became of it
  isOpen: boolean; // it has not been delivered, nor rewritten an item
}

export interface Question {
  id: string;
  kind: "question" | "approval" | "timer" | "doubt";
  says: string;
  waits: string;
  at: number;
  status: "open" | "answered" | "withdrawn";
  answer: Answer | null;
  settledAt: number;
}

/** What a question was answered, or why it was withdrawn. */
export type Answer = Pick<Wire, "sign" | "by" | "says" | "reason">;

export interface Child {
  id: string;
  says: string;
  facts: readonly string[];
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
  says: string;
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
  stop: { seq: number; at: number } | null; // the pause or cancel that is not in effect yet
  end: End | null;
}

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
    stop: null,
    end: null,
  };
}
