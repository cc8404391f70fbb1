/** What somebody pressed means for what is shown: a stop that is on its way, an instruction that waits. */
import type { InstructionSettled, Redirected, Signalled } from "../../wire/events";
import type { Rec, Told } from "../../wire/types";
import type { Draft } from "./draft";
import { withdrawOpen } from "./questions";
import { renamed } from "./steps";

/** A line of its own, for a record that is one. */
export function note(draft: Draft, { seq, at_ms, event, told }: Rec): void {
  const { sign = "·", by = "", about = "", says, reason = "", tone } = told;
  if (!tone) return;
  const via = "via" in event ? (event.via ?? "") : "";
  const words = about ? `${about} ${says}` : says;
  draft.note({ seq, at: at_ms, sign, by, via, says: words, reason, then: "", how: [], took: -1, weight: tone });
}

export function stopRequested(draft: Draft, _: unknown, rec: Rec): void {
  draft.view.stop = { seq: rec.seq, at: rec.at_ms };
}

export function cancelRequested(draft: Draft, event: unknown, rec: Rec): void {
  stopRequested(draft, event, rec);
  withdrawOpen(draft, rec, null);
}

/** The pause or the cancel that was asked for has taken hold. */
export function inEffect(draft: Draft, _: unknown, rec: Rec): void {
  renamed(draft, rec.told);
  const stop = draft.view.stop;
  const note = stop && draft.view.notes.get(stop.seq);
  if (!note) return;
  const { says: then, facts = [] } = rec.told;
  draft.put("notes", note.seq, { ...note, then, how: facts, took: rec.at_ms - stop.at });
  draft.view.stop = null;
}

export function resumed(draft: Draft, _: unknown, rec: Rec): void {
  renamed(draft, rec.told);
  draft.view.stop = null;
}

export function redirected(draft: Draft, event: Redirected, rec: Rec): void {
  const { by = "", reason = "", facts = [] } = rec.told;
  draft.put("told", rec.seq, {
    seq: rec.seq,
    at: rec.at_ms,
    by,
    text: event.instruction,
    reason,
    says: facts.join(", "),
    isOpen: true,
  });
  draft.add({ kind: "told", id: rec.seq });
  withdrawOpen(draft, rec, ["question", "approval"]);
}

export function instructionSettled(draft: Draft, event: InstructionSettled, { told }: Rec): void {
  settle(draft, event.instruction, told.says);
}

export function settle(draft: Draft, seq: number, says: string): void {
  const told = draft.view.told.get(seq);
  if (told?.isOpen) draft.put("told", seq, { ...told, says, isOpen: false });
}

/** The run has ended: what nobody has heard, nobody will. */
export function returned(draft: Draft, { open = "" }: Told): void {
  for (const told of draft.view.told.values()) settle(draft, told.seq, open);
}

export function signalled(draft: Draft, event: Signalled): void {
  draft.view.signals = draft.view.signals.filter((name) => name !== event.name);
}
