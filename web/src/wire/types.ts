/** What the server says about runs, beside the journal's own events. Made by the server; never recomputed here. */

import type { Json, JournalEvent, Source } from "./events";
import type { Right } from "./verbs";

export type { Json, JournalEvent } from "./events";
export type { Command, Right } from "./verbs";

export type RunState =
  | "queued"
  | "running"
  | "pausing"
  | "paused"
  | "waiting"
  | "stopping"
  | "stopped"
  | "cancelling"
  | "cancelled"
  | "completed"
  | "failed";

/** What a button of a panel does. All but `review` are a POST of the same name. */
export type ButtonVerb =
  | "pause"
  | "resume"
  | "redirect"
  | "cancel"
  | "review"
  | "raise"
  | "continue"
  | "fork"
  | "undo";

/** Makes a new run from an old one: `POST runs/{id}/VERB`, answered with its id. */
export type Beginning = "fork" | "continue" | "aside";

export type Cap = "steps" | "usd" | "tokens" | "tool_calls" | "working_s";
export type Clock = "working_ms" | "waiting_ms" | "paused_ms" | "queued_ms";
export type Times = Record<Clock, number>;

export interface Cost {
  usd_micros: number;
  tokens_in: number;
  tokens_out: number;
  unknown_calls: number;
}

export interface Button {
  verb: ButtonVerb;
  label: string;
  /** What it will do, now. */
  says: string;
  /** To be sent with it. */
  body: Record<string, Json>;
  /** Why it cannot act now; empty: it can. */
  off: string;
  strong: boolean;
}

export interface Meter {
  cap: Cap;
  used: number;
  of: number;
  says: string;
}

export interface Raise {
  cap: Cap;
  used: number;
  of: number;
  suggest: number;
  says: string;
}

export interface Tally {
  done: number;
  undone: number;
  could_not_undo: number;
  in_doubt: number;
  failed: number;
  interrupted: number;
  /** Interrupted, but it or what it has started could not be stopped. */
  still_running: number;
  under_way: number;
  not_attempted: number;
  /** Of `done`: changed something, and nothing says how to take it back. */
  no_undo: number;
}

/** How a run is now: all that a bar or a row of a list shows. */
export interface Panel {
  run: string;
  agent: string;
  thread: string;
  /** That somebody has given it. */
  title: string;
  parent: string | null;
  /** The last record it knows; sent back as `seen_seq`. */
  seq: number;
  state: RunState;
  sign: string;
  label: string;
  says: string;
  ended: boolean;
  at_ms: number;
  created_at_ms: number;
  updated_at_ms: number;
  /** What it does, waits for or is stopping; empty: nothing. */
  doing: string;
  /** Of the pause, cancel or stop in force. */
  by: string;
  reason: string;
  source: Source | "";
  /** While pausing: how long the answer may still go on before it is cut. */
  hold_left_ms: number | null;
  times: Times;
  /** Which of the times grows now. */
  ticking: Clock | "";
  steps: number;
  items: { at: number; of: number } | null;
  meters: Meter[];
  cost: Cost;
  /** The next item that has not begun; `before == after` if nobody rewrote it. */
  next: { before: string; after: string } | null;
  /** Instructions that wait to be delivered. */
  told: string[];
  buttons: Button[];
  wants: number;
  attention: number;
  raise: Raise[];
  tally: Tally;
  error: string;
  driven: boolean;
  alone: string;
  quarantined: boolean;
  /** Who stopped it, as it follows the label. */
  who: string;
  /** The tally in words. */
  did: string;
  /** What stands beside the clock. */
  readings: { says: string; near: boolean }[];
  /** What the spend is made of. */
  spent: string;
  /** What it needs somebody for. */
  needs: string;
}

export type AckVerdict = "applied" | "already" | "too_late" | "rejected";

/** What became of a command. */
export interface Ack {
  verdict: AckVerdict;
  seq: number;
  state: RunState;
  reason?: string;
  message?: string;
}

/** Why a request was refused: application/problem+json. */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  code: string;
  ack?: Ack;
}

/** A record in words: the sentence is `by about says “reason”`, and the facts stand behind it. */
export interface Told {
  says: string;
  sign?: string;
  /** Of the line that it is; none: it changes a line that is there. */
  tone?: "press" | "plain" | "faint";
  by?: string;
  about?: string;
  reason?: string;
  facts?: string[];
  /** What is still open is said to be from here on. */
  open?: string;
}

/** A record of the journal, as the streams and `records` give it. */
export interface Rec {
  seq: number;
  at_ms: number;
  epoch: number;
  event: JournalEvent;
  told: Told;
}

/** A piece of a text that is being written. The `text_ended` record that follows replaces it. */
export interface LiveText {
  part: string;
  offset: number;
  text: string;
}

/** One line of a receipt, in words: with a sign, the steps under one heading. */
export interface ReceiptLine {
  word: string;
  heading?: keyof Tally;
  sign?: string;
  names?: string[];
  says?: string;
}

/** What a run left behind. Only what is shown of it: the server says more. */
export interface Receipt {
  lines: ReceiptLine[];
}

export interface RunDetails {
  panel: Panel;
  input: Json;
  result: Json;
  created_at_ms: number;
  code_version: string;
  model: string;
}

/** A call that waits to be allowed. */
export interface Card {
  run: string;
  agent: string;
  question: string;
  tool: string;
  args: Json;
  /** The name of each argument and its value as JSON text: what is shown. Numbers of `args` may be rounded here. */
  shown: [name: string, json: string][];
  /** What it does to the world, and whether that can be taken back. */
  policy: string;
  can_be_undone: boolean;
  /** The agent's words. */
  text: string;
  /** The digest of the exact call; sent back, it is all that is allowed. */
  call: string;
  expires_in_ms: number;
}

/** A question that waits for an answer; a `doubt` is answered with happened, run or skip. */
export interface Open {
  run: string;
  agent: string;
  question: string;
  kind: "question" | "doubt";
  text: string;
  details: Json;
  step: string;
}

/** Something a person has to look at, also after the run has ended. */
export interface Item {
  run: string;
  agent: string;
  state: RunState;
  item: string;
  text: string;
}

export interface Inbox {
  cards: Card[];
  questions: Open[];
  attention: Item[];
}

export interface Agent {
  name: string;
  wants_input: boolean;
  about: string;
}

export interface Me {
  by: string;
  right: Right;
  /** A link for one run shows that run only. */
  run: string | null;
  how: "session" | "link" | "token" | "host";
}

export interface Grant {
  id: string;
  name: string;
  kind: "session" | "link" | "token";
  right: Right;
  run: string | null;
  expires_at_ms: number;
  created_at_ms: number;
  revoked: boolean;
}

export interface NewGrant {
  id: string;
  code: string;
  url: string;
}

/** One engaged kill switch: of everything, or of one agent or thread only. */
export interface Engaged {
  scope: "all" | "agent" | "thread";
  /** Of the agent or the thread; empty: everything. */
  name: string;
  by: string;
  reason: string;
  at_ms: number;
}

export interface KillSwitch {
  engaged: Engaged[];
  /** The runs that are held by it. */
  held: string[];
  /** False: the store cannot be written. It holds all the same. */
  recorded: boolean;
  /** What could not be killed, and why. Told to whoever has engaged it. */
  not_stopped: { what: string; why: string }[];
}

/** The messages of a stream, by the name of their event. */
export interface StreamMessages {
  record: Rec;
  text: LiveText;
  panel: Panel;
  row: Panel;
  /** Not all that was told may be shown any more: what follows tells the run from its first record on. */
  anew: Record<string, never>;
  lagged: { from: string };
  bye: { why: string };
}
