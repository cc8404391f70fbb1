/** What happens to a run as a whole: it is made, taken, given back, and ends. */
import type {
  AttentionRaised,
  AttentionSettled,
  Cancelled,
  ChildBorn,
  ChildEnded,
  Claimed,
  Completed,
  ConditionMet,
  Created,
  Failed,
  GuardTripped,
  Json,
  Released,
  Requeued,
  StoodStill,
  TakenOver,
  Stopped,
} from "../../wire/events";
import type { Rec } from "../../wire/types";
import type { Draft } from "./draft";
import { closeAll } from "./plans";
import { inEffect } from "./presses";
import { withdrawOpen } from "./questions";
import type { End } from "./view";

export function created(draft: Draft, event: Created): void {
  draft.view.by = event.by ?? "";
  draft.view.forkedFrom = event.forked_from ?? "";
  draft.view.signals = [...new Set(signalsIn(event.limits?.condition ?? null))];
}

/** What a condition wants somebody outside to say, however it is joined of others. */
function signalsIn(condition: Json): string[] {
  if (condition === null || typeof condition !== "object") return [];
  if (Array.isArray(condition)) return condition.flatMap(signalsIn);
  const { is, name } = condition;
  return is === "external" && typeof name === "string" ? [name] : Object.values(condition).flatMap(signalsIn);
}

export function claimed(draft: Draft, event: Claimed | TakenOver, rec: Rec): void {
  const now = draft.view.stretches.at(-1);
  const wasWorking = now?.pace === "working" && now.from !== rec.at_ms; // else it began just now
  if (event.epoch > 1 && wasWorking) {
    faint(draft, rec, "Its process was gone. Another one took it over.");
  }
}

export function stoodStill(draft: Draft, event: StoodStill, rec: Rec): void {
  const seconds = Math.round((rec.at_ms - event.alive_ms) / 1000);
  faint(draft, rec, `Its process stood still for ${seconds} s, and goes on.`);
}

export function requeued(draft: Draft, event: Requeued, rec: Rec): void {
  faint(draft, rec, `Its process gave it back (${event.cause ?? "shutdown"}). The next free one goes on.`);
}

export function completed(draft: Draft, event: Completed, rec: Rec): void {
  end(draft, rec, { state: "completed", result: event.result ?? null });
}

export function cancelled(draft: Draft, event: Cancelled, rec: Rec): void {
  inEffect(draft, event, rec);
  end(draft, rec, { state: "cancelled" });
}

export function stopped(draft: Draft, event: Stopped, rec: Rec): void {
  const { leaves, error = "", result = null } = event;
  end(draft, rec, { state: "stopped", leaves, error, result });
}

export function failed(draft: Draft, event: Failed, rec: Rec): void {
  end(draft, rec, { state: "failed", error: event.error });
}

function end(draft: Draft, rec: Rec, how: Pick<End, "state"> & Partial<End>): void {
  draft.view.end = { at: rec.at_ms, result: null, error: "", leaves: [], ...how };
  closeAll(draft, how.state === "completed" ? "done" : "interrupted", rec);
  withdrawOpen(draft, rec, null);
  for (const told of draft.view.told.values()) {
    if (told.outcome === "queued") draft.put("told", told.seq, { ...told, outcome: "returned" });
  }
}

export function released(draft: Draft, event: Released, rec: Rec): void {
  if (event.error) faint(draft, rec, `Something could not be released: ${event.error}`);
}

export function guardTripped(draft: Draft, event: GuardTripped, rec: Rec): void {
  const stop = event.on_hit === "pause" ? "paused" : "cancelled";
  const says = `found what it watches for, before anybody has seen it. The run is ${stop}`;
  const by = `Guard ${event.guard}`;
  draft.note({ seq: rec.seq, at: rec.at_ms, sign: "!", by, source: "guard", says, weight: "press" });
}

export function conditionMet(draft: Draft, event: ConditionMet, rec: Rec): void {
  faint(draft, rec, `True from here on: ${event.condition}`);
}

export function attentionRaised(draft: Draft, event: AttentionRaised): void {
  draft.put("attention", event.item, event.text ?? "");
}

export function attentionSettled(draft: Draft, event: AttentionSettled, rec: Rec): void {
  const text = draft.view.attention.get(event.item) ?? event.item;
  draft.drop("attention", event.item);
  draft.note({
    seq: rec.seq,
    at: rec.at_ms,
    sign: "✓",
    by: event.by,
    source: event.source ?? "person",
    says: `dealt with it: ${text}`,
    reason: event.reason ?? "",
    weight: "press",
  });
}

export function childBorn(draft: Draft, event: ChildBorn): void {
  const { child, agent = "", detached = false } = event;
  draft.put("children", child, { id: child, agent, detached, state: "" });
  draft.add({ kind: "child", id: child });
}

export function childEnded(draft: Draft, event: ChildEnded): void {
  const known = draft.view.children.get(event.child);
  if (known) draft.put("children", event.child, { ...known, state: event.state });
}

function faint(draft: Draft, rec: Rec, says: string): void {
  draft.note({ seq: rec.seq, at: rec.at_ms, says, weight: "faint" });
}
