/** What each event of the journal changes in what is shown. Those not listed are a line at most. */
import type { JournalEvent } from "../../wire/events";
import type { Rec } from "../../wire/types";
import type { Draft } from "./draft";
import * as plans from "./plans";
import * as presses from "./presses";
import * as questions from "./questions";
import * as steps from "./steps";
import { pace } from "./pace";
import { textEnded } from "./texts";
import * as whole from "./whole";

type Kind = JournalEvent["type"];
type Effects = {
  [K in Kind]?: (draft: Draft, event: Extract<JournalEvent, { type: K }>, rec: Rec) => void;
};

const EFFECTS: Effects = {
  created: whole.created,
  paused: presses.inEffect,
  cancelled: whole.cancelled,
  completed: whole.completed,
  stopped: whole.stopped,
  failed: whole.failed,
  attention_raised: whole.attentionRaised,
  attention_settled: whole.attentionSettled,
  child_born: whole.childBorn,
  child_ended: whole.childEnded,
  pause_requested: presses.stopRequested,
  resumed: presses.resumed,
  instruction_settled: presses.instructionSettled,
  cancel_requested: presses.cancelRequested,
  signalled: presses.signalled,
  step_started: steps.started,
  step_finished: steps.finished,
  step_failed: steps.failed,
  step_interrupted: steps.interrupted,
  step_in_doubt: steps.inDoubt,
  doubt_settled: steps.doubtSettled,
  late_result: steps.lateResult,
  undo_started: steps.undoing,
  step_undone: steps.undone,
  undo_failed: steps.undoing,
  planned: plans.planned,
  item_rewritten: plans.itemRewritten,
  item_started: plans.itemStarted,
  plan_ended: plans.planEnded,
  text_ended: textEnded,
  asked: questions.asked,
  answered: questions.answered,
  question_withdrawn: questions.withdrawn,
  spent: steps.spent,
};

export function apply(draft: Draft, rec: Rec): void {
  draft.view.seq = rec.seq;
  draft.view.at = rec.at_ms;
  pace(draft, rec);
  if (rec.event.type === "redirected") return presses.redirected(draft, rec.event, rec);
  presses.note(draft, rec);
  const effect = EFFECTS[rec.event.type] as
    ((draft: Draft, event: JournalEvent, rec: Rec) => void) | undefined;
  effect?.(draft, rec.event, rec);
}
