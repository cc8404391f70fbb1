/** A question of an agent, or a step nobody knows the outcome of: a person's word is wanted. */
import { useState } from "preact/hooks";
import { shown } from "../../shown";
import type { Open } from "../../wire/types";
import { usePressing } from "../pressing";
import { useStore } from "../store";
import { Value } from "../value";
import type { Json } from "../../wire/types";
import { Choice } from "./choice";
import { doubtsIn } from "./doubts";
import { Doubts } from "./doubts_card";
import { Whose } from "./whose";

const ABOUT_ALL = "Before it goes on: what became of these steps of the run before it?";

export function Asked({ open }: { open: Open }) {
  const store = useStore();
  const { isBusy, problem, press } = usePressing();
  const answer = (value: Json): void =>
    void press(async () => {
      try {
        await store.client.command(open.run, "answer", { question: open.question, value });
      } finally {
        await store.loadInbox();
      }
    });
  const isDoubt = open.kind === "doubt";
  const doubts = doubtsIn(open.details);
  const isOff = isBusy || !store.may("control");
  return (
    <article class={`card ${open.kind}`} aria-label={isDoubt ? "A step in doubt" : "A question"}>
      <p class="asks">
        <Whose run={open.run} agent={open.agent} />
        {isDoubt ? " began a step, and nobody knows whether it happened" : " asks"}
      </p>
      <blockquote tabIndex={0}>{doubts.length ? ABOUT_ALL : shown(open.text)}</blockquote>
      {doubts.length > 0 && <Doubts doubts={doubts} isOff={isOff} onAnswer={answer} />}
      {!doubts.length && open.details !== null && <Value value={open.details} label="Details" />}
      {doubts.length > 0 ? null : isDoubt ? <Doubt isOff={isOff} onAnswer={answer} /> : <Answer isOff={isOff} onAnswer={answer} />}
      {!store.may("control") && <p class="aside">You may not answer it.</p>}
      <p role="status" class="problem">
        {problem}
      </p>
    </article>
  );
}

interface AnswerProps {
  isOff: boolean;
  onAnswer: (value: string) => void;
}

function Answer({ isOff, onAnswer }: AnswerProps) {
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
      <button type="submit" disabled={isOff || !text.trim()}>
        Answer
      </button>
    </form>
  );
}

function Doubt({ isOff, onAnswer }: AnswerProps) {
  return (
    <div class="choices">
      <Choice
        label="It happened"
        says="It counts as done; the agent goes on"
        isOff={isOff}
        onPress={() => onAnswer("happened")}
      />
      <Choice
        label="Run it"
        says="It did not happen; it is done now"
        isOff={isOff}
        onPress={() => onAnswer("run")}
      />
      <Choice
        label="Skip it"
        says="It is not done; the agent is told"
        isOff={isOff}
        onPress={() => onAnswer("skip")}
      />
    </div>
  );
}
