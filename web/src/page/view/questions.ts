/** What the agent asks, and what it was answered. */
import type { Answered, QuestionAsked, QuestionWithdrawn } from "../../wire/events";
import type { Rec } from "../../wire/types";
import type { Draft } from "./draft";
import type { Question } from "./view";

export function asked(draft: Draft, event: QuestionAsked, { told, at_ms }: Rec): void {
  draft.put("questions", event.question, {
    id: event.question,
    kind: event.kind ?? "question",
    says: told.says,
    waits: (told.facts ?? []).join(", "),
    at: at_ms,
    status: "open",
    answer: null,
    settledAt: 0,
  });
  draft.add({ kind: "question", id: event.question });
}

export function answered(draft: Draft, event: Answered, { told, at_ms }: Rec): void {
  settle(draft, event.question, { status: "answered", answer: told, settledAt: at_ms });
}

export function withdrawn(draft: Draft, event: QuestionWithdrawn, { told, at_ms }: Rec): void {
  settle(draft, event.question, { status: "withdrawn", answer: told, settledAt: at_ms });
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
