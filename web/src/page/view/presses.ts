/** Who pressed what, and why; and when it was in effect. */
import type {
  CancelRequested,
  Hurried,
  InstructionSettled,
  LimitReached,
  LimitsRaised,
  Paused,
  PauseRequested,
  Redirected,
  Resumed,
  Rung,
  Signalled,
  Source,
  UndoRequested,
} from "../../wire/events";
import type { Rec } from "../../wire/types";
import type { Draft } from "./draft";
import { withdrawOpen } from "./questions";

interface Asked {
  by: string;
  reason?: string;
  source?: Source;
  via?: string;
}

function press(draft: Draft, event: Asked, rec: Rec, sign: string, says: string): void {
  draft.note({
    seq: rec.seq,
    at: rec.at_ms,
    sign,
    by: event.by,
    via: event.via ?? "",
    source: event.source ?? "person",
    says,
    reason: event.reason ?? "",
    weight: "press",
  });
}

export function pauseRequested(draft: Draft, event: PauseRequested, rec: Rec): void {
  const says: Partial<Record<Source, string>> = {
    limit: "Its limits paused it",
    kill_switch: "pulled the kill switch: it is held",
  };
  const plain = `paused it${event.now ? ", now" : ""}`;
  press(draft, event, rec, "‖", says[event.source ?? "person"] ?? plain);
  draft.view.stop = { seq: rec.seq, at: rec.at_ms };
}

/** The pause or the cancel that was asked for has taken hold. */
export function inEffect(draft: Draft, event: Paused | { rung?: Rung }, rec: Rec): void {
  const stop = draft.view.stop;
  const note = stop && draft.view.notes.get(stop.seq);
  if (!note) return;
  const frozen =
    "frozen" in event && event.frozen?.length
      ? ` Frozen, as long as its process lives: ${event.frozen.join(", ")}.`
      : "";
  draft.put("notes", note.seq, {
    ...note,
    took: rec.at_ms - stop.at,
    rung: event.rung ?? "",
    says: frozen ? `${note.says}.${frozen}` : note.says,
  });
  draft.view.stop = null;
}

export function resumed(draft: Draft, event: Resumed, rec: Rec): void {
  press(draft, event, rec, "▶", "resumed it");
  draft.view.stop = null;
}

export function redirected(draft: Draft, event: Redirected, rec: Rec): void {
  draft.put("told", rec.seq, {
    seq: rec.seq,
    at: rec.at_ms,
    by: event.by,
    text: event.instruction,
    reason: event.reason ?? "",
    outcome: "queued",
    item: "",
    rewrote: "",
  });
  draft.add({ kind: "told", id: rec.seq });
  withdrawOpen(draft, rec, ["question", "approval"]);
}

export function instructionSettled(draft: Draft, event: InstructionSettled): void {
  const told = draft.view.told.get(event.instruction);
  if (told) draft.put("told", told.seq, { ...told, outcome: event.outcome });
}

export function cancelRequested(draft: Draft, event: CancelRequested, rec: Rec): void {
  const kept = event.keep_partial === false ? ", partial text dropped" : "";
  const undo = event.undo === false ? ", nothing is undone" : "";
  const hidden = event.quarantine ? ", quarantined" : "";
  press(draft, event, rec, "■", `cancelled it${event.now ? ", now" : ""}${undo}${kept}${hidden}`);
  draft.view.stop = { seq: rec.seq, at: rec.at_ms };
  withdrawOpen(draft, rec, null);
}

export function undoRequested(draft: Draft, event: UndoRequested, rec: Rec): void {
  press(draft, event, rec, "↶", "asked to undo what it left behind");
}

export function hurried(draft: Draft, event: Hurried, rec: Rec): void {
  press(draft, event, rec, "■", "pressed again: what was under way is cut");
}

const THEN = {
  stop: "it stops",
  wrap_up: "it gives a last answer and stops",
  pause_and_ask: "it pauses and asks",
} as const;

export function limitReached(draft: Draft, event: LimitReached, rec: Rec): void {
  const which = event.reason ? "" : ` (${event.leaves.join(", ")})`;
  press(draft, event, rec, "⊘", `A limit is reached${which}: ${THEN[event.then]}`);
}

export function limitsRaised(draft: Draft, event: LimitsRaised, rec: Rec): void {
  const caps = Object.entries(event.caps).map(([cap, value]) => `${cap} ${value}`);
  press(draft, event, rec, "↑", `set other limits: ${caps.join(", ")}`);
}

export function signalled(draft: Draft, event: Signalled, rec: Rec): void {
  press(draft, event, rec, "·", `said that it has happened: ${event.name}`);
  draft.view.signals = draft.view.signals.filter((name) => name !== event.name);
}
