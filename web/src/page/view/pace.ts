/** When the run was working, held, waiting or queued: for the picture, not for any decision. */
import type { JournalEvent } from "../../wire/events";
import type { Rec } from "../../wire/types";
import type { Draft } from "./draft";
import type { Pace } from "./view";

type Turn = Pace | "over" | { [Before in Pace]?: Pace };

const TURNS: { [K in JournalEvent["type"]]?: Turn } = {
  created: "queued",
  claimed: { queued: "working", waiting: "working", pausing: "paused" },
  requeued: "queued",
  blocked: "waiting",
  answered: { waiting: "queued" },
  child_ended: { waiting: "queued" },
  redirected: { waiting: "queued" },
  pause_requested: { queued: "paused", working: "pausing", waiting: "paused" },
  paused: "paused",
  resumed: { pausing: "working", paused: "queued" },
  limit_reached: "stopping",
  cancel_requested: "cancelling",
  completed: "over",
  cancelled: "over",
  stopped: "over",
  failed: "over",
};

export function pace(draft: Draft, rec: Rec): void {
  const turn = TURNS[rec.event.type];
  if (!turn || draft.view.end) return;
  const last = draft.view.stretches.at(-1);
  const next = typeof turn === "string" ? turn : last && turn[last.pace];
  if (!next || next === last?.pace) return;
  const before = draft.view.stretches.slice(0, -1);
  const closed = last ? [{ ...last, to: rec.at_ms }] : [];
  const begun = next === "over" ? [] : [{ pace: next, from: rec.at_ms, to: 0 }];
  draft.view.stretches = [...before, ...closed, ...begun];
}
