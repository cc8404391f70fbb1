/** What the agent asks, and what it was answered. */
import type { Answered, QuestionAsked, QuestionWithdrawn } from "../../wire/events";
import type { Rec } from "../../wire/types";
import type { Draft } from "./draft";
import type { Question } from "./view";

export function asked(draft: Draft, event: QuestionAsked, rec: Rec): void {
  draft.put("questions", event.question, {
    id: event.question,
    kind: event.kind ?? "question",
    text: event.text ?? "",
    details: event.details ?? null,
    tool: event.tool ?? "",
    step: event.step ?? "",
    at: rec.at_ms,
    status: "open",
    verdict: "",
    value: null,
    by: "",
    reason: "",
    settledAt: 0,
  });
  draft.add({ kind: "question", id: event.question });
}

export function answered(draft: Draft, event: Answered, rec: Rec): void {
  settle(draft, event.question, {
    status: "answered",
    verdict: event.verdict ?? "",
    value: event.value ?? null,
    by: event.by,
    reason: event.reason ?? "",
    settledAt: rec.at_ms,
  });
}

export function withdrawn(draft: Draft, event: QuestionWithdrawn, rec: Rec): void {
  settle(draft, event.question, { status: "withdrawn", reason: event.why ?? "", settledAt: rec.at_ms });
}

/** A redirect takes open cards off the table, a cancel or the end everything. */
export function withdrawOpen(draft: Draft, rec: Rec, kinds: readonly Question["kind"][] | null): void {
  for (const question of draft.view.questions.values()) {
    if (question.status === "open" && (!kinds || kinds.includes(question.kind))) {
      settle(draft, question.id, { status: "withdrawn", settledAt: rec.at_ms });
    }
  }
}

function settle(draft: Draft, id: string, change: Partial<Question>): void {
  const known = draft.view.questions.get(id);
  if (known?.status === "open") draft.put("questions", id, { ...known, ...change });
}
