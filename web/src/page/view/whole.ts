/** What happens to a run as a whole: it is made, it has others, and it ends. */
import type {
  AttentionRaised,
  AttentionSettled,
  ChildBorn,
  ChildEnded,
  Completed,
  Created,
  Failed,
  Json,
  Stopped,
} from "../../wire/events";
import type { Rec } from "../../wire/types";
import type { Draft } from "./draft";
import { closeAll } from "./plans";
import { inEffect, returned } from "./presses";
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

export function completed(draft: Draft, event: Completed, rec: Rec): void {
  end(draft, rec, { state: "completed", result: event.result ?? null });
}

export function cancelled(draft: Draft, event: unknown, rec: Rec): void {
  inEffect(draft, event, rec);
  end(draft, rec, { state: "cancelled" });
}

export function stopped(draft: Draft, event: Stopped, rec: Rec): void {
  const { error = "", result = null } = event;
  end(draft, rec, { state: "stopped", error, result });
}

export function failed(draft: Draft, event: Failed, rec: Rec): void {
  end(draft, rec, { state: "failed", error: event.error });
}

function end(draft: Draft, rec: Rec, how: Pick<End, "state"> & Partial<End>): void {
  draft.view.end = { at: rec.at_ms, says: rec.told.says, result: null, error: "", ...how };
  closeAll(draft, how.state === "completed" ? "done" : "interrupted", rec);
  withdrawOpen(draft, rec, null);
  returned(draft, rec.told);
}

export function attentionRaised(draft: Draft, event: AttentionRaised): void {
  draft.put("attention", event.item, event.text ?? "");
}

export function attentionSettled(draft: Draft, event: AttentionSettled): void {
  draft.drop("attention", event.item);
}

export function childBorn(draft: Draft, event: ChildBorn, { told }: Rec): void {
  draft.put("children", event.child, { id: event.child, says: told.says, facts: told.facts ?? [], state: "" });
  draft.add({ kind: "child", id: event.child });
}

export function childEnded(draft: Draft, event: ChildEnded, { told }: Rec): void {
  const known = draft.view.children.get(event.child);
  if (known) draft.put("children", event.child, { ...known, state: told.says });
}
