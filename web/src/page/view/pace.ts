/** When the run was working, held, waiting or queued: for the picture, not for any decision. */
import type { JournalEvent } from "../../wire/events";
import type { Rec } from "../../wire/types";
import type { Draft } from "./draft";
import type { Pace, Stretch } from "./view";

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

/** How much of a time the run was paused, and since when it is: what is frozen does not work. */
export function heldIn(stretches: readonly Stretch[], from: number, to: number): { ms: number; since: number } {
  let ms = 0;
  let since = 0;
  for (const one of stretches) {
    if (one.pace !== "paused" || one.from > to || (one.to && one.to < from)) continue;
    if (one.to) ms += Math.min(one.to, to) - Math.max(one.from, from);
    else since = Math.max(one.from, from);
  }
  return { ms, since };
}
