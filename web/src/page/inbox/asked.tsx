/** A question of an agent, or a step nobody knows the outcome of: a person's word is wanted. */
import { useState } from "preact/hooks";
import { shown, shownLine } from "../../shown";
import type { Open } from "../../wire/types";
import { usePressing } from "../pressing";
import { hrefOf } from "../routes";
import { useStore } from "../store";
import { Value } from "../value";
import { Choice } from "./approval";

export function Asked({ open }: { open: Open }) {
  const store = useStore();
  const { isBusy, problem, press } = usePressing();
  const answer = (value: string): void =>
    void press(async () => {
      try {
        await store.client.command(open.run, "answer", { question: open.question, value });
      } finally {
        await store.loadInbox();
      }
    });
  const isDoubt = open.kind === "doubt";
  return (
    <article class={`card ${open.kind}`} aria-label={isDoubt ? "A step in doubt" : "A question"}>
      <p class="asks">
        <a href={hrefOf({ at: "run", run: open.run })}>{shownLine(open.agent, 60)}</a>
        {isDoubt ? " began a step, and nobody knows whether it happened" : " asks"}
      </p>
      <blockquote tabIndex={0}>{shown(open.text)}</blockquote>
      {open.details !== null && <Value value={open.details} label="Details" />}
      {isDoubt ? <Doubt isBusy={isBusy} onAnswer={answer} /> : <Answer isBusy={isBusy} onAnswer={answer} />}
      <p role="status" class="problem">
        {problem}
      </p>
    </article>
  );
}

interface AnswerProps {
  isBusy: boolean;
  onAnswer: (value: string) => void;
}

function Answer({ isBusy, onAnswer }: AnswerProps) {
  const [text, setText] = useState("");
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault();
        if (text.trim()) onAnswer(text);
      }}
    >
      <label>
        Your answer
        <input value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <button type="submit" disabled={isBusy || !text.trim()}>
        Answer
      </button>
    </form>
  );
}

function Doubt({ isBusy, onAnswer }: AnswerProps) {
  return (
    <div class="choices">
      <Choice label="It happened" says="It counts as done; the agent goes on" isOff={isBusy} onPress={() => onAnswer("happened")} />
      <Choice label="Run it" says="It did not happen; it is done now" isOff={isBusy} onPress={() => onAnswer("run")} />
      <Choice label="Skip it" says="It is not done; the agent is told" isOff={isBusy} onPress={() => onAnswer("skip")} />
    </div>
  );
}
