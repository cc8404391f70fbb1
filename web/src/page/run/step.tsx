/** One step: what it is before it has happened, and everything about it for whoever opens it. */
import { useState } from "preact/hooks";
import { shown, shownLine } from "../../shown";
import { memo } from "../memo";
import { useStore } from "../store";
import { LongText, readable, Value } from "../value";
import { heldIn } from "../view/pace";
import type { Attempt, Question, Step } from "../view/view";
import { duration, timeOfDay } from "../words";
import { Ticking } from "./ticking";
import { Words } from "./said";

export const StepLine = memo(function StepLine({ step }: { step: Step }) {
  const [isOpen, open] = useState(false);
  const state = step.undo === "undone" || step.undo === "failed" ? step.undo : step.status;
  return (
    <details
      class={`step ${state}${step.isModel ? " model" : ""}`}
      onToggle={(e) => open(e.currentTarget.open)}
    >
      <summary>
        <span class="sign" aria-hidden="true">
          {step.sign}
        </span>
        <span class="name">{shownLine(step.name, 120)}</span>
        <span class="facts">
          <span class="status">{shownLine(step.says, 120)}</span>
          {[...step.bills, ...step.facts].map((fact) => (
            <span class="fact" key={fact}>
              {shownLine(fact, 120)}
            </span>
          ))}
        </span>
        <Took from={step.from} to={step.to} />
      </summary>
      {isOpen && <Inside step={step} />}
    </details>
  );
});

/** How long it has worked: the time for which it was frozen does not count. */
export function Took({ from, to }: { from: number; to: number }) {
  const { view } = useStore();
  const held = heldIn(view.value?.stretches ?? [], from, to || Infinity);
  return (
    <span class="num took">
      {!from || (!to && view.value?.end) ? (
        ""
      ) : to ? (
        duration(to - from - held.ms)
      ) : held.since ? (
        duration(held.since - from - held.ms)
      ) : (
        <Ticking from={from + held.ms} />
      )}
    </span>
  );
}

function Inside({ step }: { step: Step }) {
  const { view } = useStore();
  const parts = step.output.flatMap((id) => view.value?.parts.get(id) ?? []);
  const failure = step.attempts.at(-1)?.trouble;
  return (
    <div class="inside">
      <dl>
        <Fact name="Declares" value={step.policy.join(", ")} />
        <Fact name="Allowed by" value={allowedBy(view.value?.questions.get(step.approval))} />
        <Fact name="Cost" value={step.bills.join("; ")} />
        <Fact name="A person's word" value={step.settled} />
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

function allowedBy(question: Question | undefined): string {
  return shownLine(question?.answer?.by ?? "", 60);
}

function Attempts({ attempts }: { attempts: readonly Attempt[] }) {
  if (attempts.length < 2) return null;
  return (
    <Field name="Attempts">
      <ol class="attempts">
        {attempts.map((attempt) => (
          <li key={attempt.number}>
            <span class="num">{timeOfDay(attempt.from)}</span> {shownLine([attempt.says, ...attempt.facts].join("; "))}
            {attempt.to ? ` after ${duration(attempt.to - attempt.from)}` : ""}
          </li>
        ))}
      </ol>
    </Field>
  );
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
