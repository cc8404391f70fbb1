/** Steps: begun, decided, undone; each attempt kept. */
import type {
  DoubtSettled,
  LateResult,
  Spent,
  StepFailed,
  StepFinished,
  StepInDoubt,
  StepInterrupted,
  StepStarted,
  StepUndone,
} from "../../wire/events";
import type { Rec, Told } from "../../wire/types";
import type { Draft } from "./draft";
import { outputPart } from "./texts";
import type { Attempt, Step, StepStatus } from "./view";

/** What a record says of its step, in the step's line. */
function words({ told }: Rec): Pick<Step, "sign" | "says" | "facts"> {
  return { sign: told.sign ?? "", says: told.says, facts: told.facts ?? [] };
}

export function started(draft: Draft, event: StepStarted, rec: Rec): void {
  const number = event.attempt ?? 1;
  const said = words(rec);
  const attempt: Attempt = { number, from: rec.at_ms, to: 0, trouble: "", says: said.says, facts: [] };
  const before = draft.view.steps.get(event.step);
  const step: Step = {
    id: event.step,
    name: rec.told.about ?? event.name,
    isModel: Boolean(event.model),
    undoable: event.undoable ?? false,
    status: "running",
    undo: before?.undo ?? "",
    ...said,
    policy: said.facts,
    bills: before?.bills ?? [],
    args: event.args ?? null,
    result: null,
    attempts: [...(before?.attempts ?? []), attempt],
    from: before?.from ?? rec.at_ms,
    to: 0,
    output: before?.output ?? [],
    approval: event.approval ?? "",
    settled: "",
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
  decide(draft, event.step, "failed", rec, event.error);
}

export function interrupted(draft: Draft, event: StepInterrupted, rec: Rec): void {
  decide(draft, event.step, event.began === false ? "not_started" : "interrupted", rec);
}

export function inDoubt(draft: Draft, event: StepInDoubt, rec: Rec): void {
  decide(draft, event.step, "in_doubt", rec, event.why);
}

function decide(draft: Draft, id: string, status: StepStatus, rec: Rec, trouble = ""): void {
  const said = words(rec);
  draft.step(id, (step) => {
    const last = step.attempts.at(-1);
    const over = last && { ...last, to: rec.at_ms, says: said.says, facts: said.facts, trouble };
    return {
      status,
      ...said,
      to: rec.at_ms,
      attempts: [...step.attempts.slice(0, -1), ...(over ? [over] : [])],
    };
  });
}

/** What is under way stands still from here on, or goes on. */
export function renamed(draft: Draft, { open }: Told): void {
  if (!open) return;
  for (const step of draft.view.steps.values()) if (!step.to) draft.step(step.id, () => ({ says: open }));
}

export function doubtSettled(draft: Draft, event: DoubtSettled, { told }: Rec): void {
  draft.step(event.step, (step) => ({
    settled: `${told.by} ${told.says}`,
    status: event.choice === "happened" ? "done" : step.status,
    result: event.choice === "happened" ? (event.result ?? null) : step.result,
  }));
  draft.drop("attention", event.step);
}

export function lateResult(draft: Draft, event: LateResult, rec: Rec): void {
  draft.step(event.step, (step) => ({ ...words(rec), result: event.result ?? step.result }));
}

export function spent(draft: Draft, event: Spent, { told }: Rec): void {
  if (event.step) draft.step(event.step, (step) => ({ bills: [...step.bills, told.says] }));
}

export function undoing(draft: Draft, event: { type: string; step: string }, rec: Rec): void {
  draft.step(event.step, () => ({ ...words(rec), undo: event.type === "undo_failed" ? "failed" : "undoing" }));
}

export function undone(draft: Draft, event: StepUndone, rec: Rec): void {
  draft.drop("attention", event.step); // whatever was in doubt about it is settled
  draft.drop("attention", undoItem(event.step));
  draft.step(event.step, (step) => {
    draft.section(step.section, (at) => ({ undone: at.undone + 1 }));
    return { ...words(rec), undo: "undone" };
  });
}

/** The attention item about an undo that failed. */
function undoItem(step: string): string {
  return `undo-${step}`.slice(0, 64);
}
