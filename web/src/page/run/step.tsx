/** One step: what it is before it has happened, and everything about it for whoever opens it. */
import { useState } from "preact/hooks";
import { shown, shownLine } from "../../shown";
import type { Json } from "../../wire/types";
import { memo } from "../memo";
import { useStore } from "../store";
import { LongText, readable, Value } from "../value";
import { spendWords } from "../view/spending";
import type { Attempt, Step } from "../view/view";
import { duration, EFFECT, RUNG, STOPS, timeOfDay } from "../words";
import { Ticking } from "./ticking";
import { Words } from "./said";

const SIGN = {
  running: "●",
  done: "✓",
  failed: "✕",
  interrupted: "■",
  in_doubt: "?",
  not_started: "○",
} as const;
const STATUS = {
  running: "under way",
  done: "done",
  failed: "failed",
  interrupted: "interrupted",
  in_doubt: "in doubt",
  not_started: "not started",
} as const;
const UNDO = { "": "", undoing: "being undone", undone: "undone", failed: "could not be undone" } as const;

export const StepLine = memo(function StepLine({ step }: { step: Step }) {
  const [isOpen, open] = useState(false);
  const state = step.undo === "undone" || step.undo === "failed" ? step.undo : step.status;
  return (
    <details
      class={`step ${state}${step.model ? " model" : ""}`}
      onToggle={(e) => open(e.currentTarget.open)}
    >
      <summary>
        <span class="sign" aria-hidden="true">
          {signOf(step)}
        </span>
        <span class="name">
          {step.model ? `Asked ${shownLine(step.model, 60)}` : shownLine(step.name, 120)}
        </span>
        <span class="facts">
          <span class="status">{statusWords(step)}</span>
          {facts(step).map((fact) => (
            <span class="fact" key={fact}>
              {fact}
            </span>
          ))}
        </span>
        <span class="num took">{step.to ? duration(step.to - step.from) : <Ticking from={step.from} />}</span>
      </summary>
      {isOpen && <Inside step={step} />}
    </details>
  );
});

function signOf(step: Step): string {
  if (step.undo === "undone") return "↶";
  if (step.undo === "failed") return "✕";
  return step.model && step.status === "done" ? "◆" : SIGN[step.status];
}

function statusWords(step: Step): string {
  const undo = UNDO[step.undo];
  if (undo) return undo;
  if (step.status === "done") return step.model ? "" : preview(step);
  const says = step.status === "failed" ? step.attempts.at(-1)?.says : "";
  return says ? `failed: ${shownLine(says, 80)}` : STATUS[step.status];
}

function preview(step: Step): string {
  if (step.result === null) return "done";
  const { result } = step;
  return shownLine(typeof result === "string" ? result : (lastLine(result) ?? JSON.stringify(result)), 60);
}

/** Of what a command has put out, the last line says most. */
function lastLine(result: Json): string | undefined {
  const isRecord = result !== null && typeof result === "object" && !Array.isArray(result);
  const output = isRecord ? result["stdout"] : undefined;
  return typeof output === "string" && output.trim() ? output.trim().split("\n").at(-1) : undefined;
}

/** What can be known of it before it has happened: its effect, its undo, what a stop does to it. */
function facts(step: Step): string[] {
  if (step.model) return step.spend ? [spendWords(step.spend)] : [];
  const isOpen = step.status === "running";
  const isHarmless = step.effect === "none" || (step.effect === "idempotent" && !isOpen);
  const undo = step.undo ? "" : step.undoable ? "can be undone" : isHarmless ? "" : "cannot be undone";
  const again = step.attempts.length > 1 ? `attempt ${step.attempts.length}` : "";
  const late = step.late && step.status !== "done" ? "it did happen, later" : "";
  const policy = step.tool || isOpen ? [EFFECT[step.effect], undo] : [];
  return [...policy, isOpen || step.runIn === "thread" ? STOPS[step.runIn] : "", again, late].filter(Boolean);
}

function Inside({ step }: { step: Step }) {
  const { view } = useStore();
  const parts = step.output.flatMap((id) => view.value?.parts.get(id) ?? []);
  const failure = step.attempts.at(-1)?.says;
  return (
    <div class="inside">
      <dl>
        <Fact
          name="Effect"
          value={[EFFECT[step.effect], step.undoable ? "can be undone" : ""].filter(Boolean).join(", ")}
        />
        <Fact name="A stop" value={step.model ? "closes the connection" : STOPS[step.runIn]} />
        <Fact name="Allowed by" value={approver(step, view.value?.questions.get(step.approval)?.by)} />
        <Fact name="Cost" value={step.spend ? spendWords(step.spend) : ""} />
        <Fact name="A person's word" value={step.settled} />
        <Fact name="Undo" value={[UNDO[step.undo], step.undoSays].filter(Boolean).join(": ")} />
        <Fact name="Step" value={step.id} />
      </dl>
      {step.args !== null && (
        <Field name="Arguments">{<Value value={step.args} label={`Arguments of ${step.name}`} />}</Field>
      )}
      {failure && (
        <Field name={step.status === "failed" ? "Error" : "Why"}>
          <LongText text={failure} label={`What went wrong in ${step.name}`} />
        </Field>
      )}
      {parts.map((part) => (
        <Field name="Output" key={part.id}>
          <div class="value" tabIndex={0} role="group" aria-label={`Output of ${step.name}`}>
            <Words part={part} />
          </div>
        </Field>
      ))}
      {step.status === "done" && (
        <Field name="Result">
          <LongText text={readable(step.result)} label={`Result of ${step.name}`} />
        </Field>
      )}
      <Attempts attempts={step.attempts} />
    </div>
  );
}

function approver(step: Step, by: string | undefined): string {
  return step.approval && by ? shownLine(by) : "";
}

function Attempts({ attempts }: { attempts: readonly Attempt[] }) {
  const hasStory = attempts.length > 1 || attempts.some((attempt) => attempt.rung);
  if (!hasStory) return null;
  return (
    <Field name="Attempts">
      <ol class="attempts">
        {attempts.map((attempt) => (
          <li key={attempt.number}>
            <span class="num">{timeOfDay(attempt.from)}</span> {STATUS[attempt.status]}
            {attempt.to ? ` after ${duration(attempt.to - attempt.from)}` : ""}
            {attempt.rung ? `; ${RUNG[attempt.rung]}` : ""}
            {ladder(attempt)}
          </li>
        ))}
      </ol>
    </Field>
  );
}

function ladder(attempt: Attempt): string {
  const rungs = Object.entries(attempt.ladder).map(([rung, ms]) => `${rung} at ${Math.round(ms)} ms`);
  return rungs.length ? ` (${rungs.join(", ")})` : "";
}

export function Field({ name, children }: { name: string; children: preact.ComponentChildren }) {
  return (
    <div class="field">
      <p class="field-name">{name}</p>
      {children}
    </div>
  );
}

export function Fact({ name, value }: { name: string; value: string }) {
  if (!value) return null;
  return (
    <div>
      <dt>{name}</dt>
      <dd>{shown(value)}</dd>
    </div>
  );
}
