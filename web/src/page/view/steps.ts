/** Steps: begun, decided, undone; each attempt kept. */
import type {
  CallRefused,
  DoubtSettled,
  LateResult,
  Rung,
  StepFailed,
  StepFinished,
  StepInDoubt,
  StepInterrupted,
  StepStarted,
  StepUndone,
  UndoFailed,
  UndoStarted,
} from "../../wire/events";
import type { Rec } from "../../wire/types";
import type { Draft } from "./draft";
import { outputPart } from "./texts";
import type { Attempt, Step, StepStatus } from "./view";

export function started(draft: Draft, event: StepStarted, rec: Rec): void {
  const number = event.attempt ?? 1;
  const attempt: Attempt = {
    number,
    from: rec.at_ms,
    to: 0,
    status: "running",
    says: "",
    rung: "",
    ladder: {},
  };
  const before = draft.view.steps.get(event.step);
  const step: Step = {
    id: event.step,
    name: event.name,
    tool: event.tool ?? "",
    model: event.model ?? "",
    effect: event.effect ?? "once",
    undoable: event.undoable ?? false,
    runIn: event.run_in ?? "",
    status: "running",
    undo: before?.undo ?? "",
    undoSays: before?.undoSays ?? "",
    args: event.args ?? null,
    result: null,
    attempts: [...(before?.attempts ?? []), attempt],
    from: before?.from ?? rec.at_ms,
    to: 0,
    output: before?.output ?? [],
    spend: before?.spend ?? null,
    approval: event.approval ?? "",
    settled: "",
    late: before?.late ?? false,
    section: before?.section ?? draft.view.current,
  };
  draft.put("steps", event.step, step);
  draft.put("outputOf", outputPart(event.step, number), event.step);
  if (!before) draft.add({ kind: "step", id: event.step });
}

export function finished(draft: Draft, event: StepFinished, rec: Rec): void {
  decide(draft, event.step, "done", rec);
  draft.step(event.step, (step) => {
    if (step.undoable) draft.section(step.section, (at) => ({ effects: at.effects + 1 }));
    return { result: event.result ?? null };
  });
}

export function failed(draft: Draft, event: StepFailed, rec: Rec): void {
  const maybe = event.happened === "maybe" ? " It may have had its effect all the same." : "";
  const yes = event.happened === "yes" ? " It had its effect all the same." : "";
  decide(draft, event.step, "failed", rec, event.error + maybe + yes, event.rung);
}

export function interrupted(draft: Draft, event: StepInterrupted, rec: Rec): void {
  const status = event.began === false ? "not_started" : "interrupted";
  const left = event.still_running?.length ? `Still running: ${event.still_running.join(", ")}.` : "";
  const says = [event.redirected ? "Stopped by a redirect." : "", left].filter(Boolean).join(" ");
  decide(draft, event.step, status, rec, says, event.rung, event.ladder_ms);
}

export function inDoubt(draft: Draft, event: StepInDoubt, rec: Rec): void {
  decide(draft, event.step, "in_doubt", rec, event.why ?? "");
}

function decide(
  draft: Draft,
  id: string,
  status: StepStatus,
  rec: Rec,
  says = "",
  rung: Rung = "",
  ladder: Readonly<Record<string, number>> = {},
): void {
  draft.step(id, (step) => {
    const last = step.attempts.at(-1);
    const over = last && { ...last, to: rec.at_ms, status, says, rung, ladder };
    return { status, to: rec.at_ms, attempts: [...step.attempts.slice(0, -1), ...(over ? [over] : [])] };
  });
}

const CHOICES = {
  happened: "says that it happened",
  run: "says that it did not happen, and that it is to be run",
  skip: "says that it is to be skipped",
} as const;

export function doubtSettled(draft: Draft, event: DoubtSettled, rec: Rec): void {
  const says = CHOICES[event.choice];
  draft.step(event.step, (step) => ({
    settled: `${event.by} ${says}.`,
    status: event.choice === "happened" ? "done" : step.status,
    result: event.choice === "happened" ? (event.result ?? null) : step.result,
  }));
  draft.drop("attention", event.step);
  const name = draft.view.steps.get(event.step)?.name ?? event.step;
  draft.note({
    seq: rec.seq,
    at: rec.at_ms,
    sign: "?",
    by: event.by,
    source: event.source ?? "person",
    says: `${says}: ${name}`,
    reason: event.reason ?? "",
    weight: "press",
  });
}

export function lateResult(draft: Draft, event: LateResult): void {
  draft.step(event.step, (step) => (event.error ? {} : { late: true, result: event.result ?? step.result }));
}

const REFUSED = {
  denied: "was denied",
  not_started: "was not started",
  unknown: "is not made again, and nobody knows whether it happened",
} as const;

export function callRefused(draft: Draft, event: CallRefused, rec: Rec): void {
  const why = event.why ? `: ${event.why}` : "";
  draft.note({
    seq: rec.seq,
    at: rec.at_ms,
    sign: "○",
    says: `${event.name} ${REFUSED[event.outcome]}${why}.`,
  });
}

export function undoStarted(draft: Draft, event: UndoStarted): void {
  draft.step(event.step, () => ({ undo: "undoing", undoSays: event.error ?? "" }));
}

export function undone(draft: Draft, event: StepUndone): void {
  draft.drop("attention", event.step); // whatever was in doubt about it is settled
  draft.drop("attention", undoItem(event.step));
  draft.step(event.step, (step) => {
    draft.section(step.section, (at) => ({ undone: at.undone + 1 }));
    return { undo: "undone", undoSays: "" };
  });
}

export function undoFailed(draft: Draft, event: UndoFailed): void {
  draft.step(event.step, () => ({ undo: "failed", undoSays: event.error }));
}

/** The attention item about an undo that failed. */
function undoItem(step: string): string {
  return `undo-${step}`.slice(0, 64);
}
