/** One answer for each of several steps, sent together. */
import { useState } from "preact/hooks";
import { shown } from "../../shown";
import type { Json } from "../../wire/types";
import { Value } from "../value";
import type { DoubtLine } from "./doubts";

const CHOICES = [
  ["happened", "It happened"],
  ["run", "Run it"],
  ["skip", "Skip it"],
] as const;

interface DoubtsProps {
  doubts: DoubtLine[];
  isOff: boolean;
  onAnswer: (value: Json) => void;
}

export function Doubts({ doubts, isOff, onAnswer }: DoubtsProps) {
  const [chosen, choose] = useState<Record<string, string>>({});
  const isWhole = doubts.every(({ step }) => chosen[step]);
  return (
    <form
      class="doubts"
      onSubmit={(event) => {
        event.preventDefault();
        if (isWhole) onAnswer(chosen);
      }}
    >
      {doubts.map(({ step, name, known, args }) => (
        <fieldset key={step}>
          <legend>
            <b>{shown(name)}</b> {shown(known)}
          </legend>
          {args !== null && <Value value={args} label={`Arguments of ${name}`} />}
          {CHOICES.map(([value, words]) => (
            <label key={value}>
              <input
                type="radio"
                name={step}
                checked={chosen[step] === value}
                onChange={() => choose({ ...chosen, [step]: value })}
              />
              {words}
            </label>
          ))}
        </fieldset>
      ))}
      <button type="submit" class="strong" disabled={isOff || !isWhole}>
        {isWhole ? "Answer" : "Choose for each"}
      </button>
    </form>
  );
}
