/** What can be asked or said beside the run, without stopping it: a question about it, and news from outside. */
import { useState } from "preact/hooks";
import { shownLine } from "../../shown";
import { memo } from "../memo";
import { usePressing } from "../pressing";
import { hrefOf } from "../routes";
import { useStore } from "../store";

interface Props {
  run: string;
  hasEnded: boolean;
  signals: readonly string[];
}

export const Besides = memo(function Besides({ run, hasEnded, signals }: Props) {
  const { me, mayStart } = useStore();
  const mayAsk = mayStart.value && !me.value?.run;
  if (!mayAsk && !(mayStart.value && signals.length)) return null;
  return (
    <section aria-labelledby="besides-title" class="besides">
      <h2 id="besides-title">{hasEnded ? "About it" : "Without stopping it"}</h2>
      {signals.map((name) => (
        <Signal key={name} run={run} name={name} />
      ))}
      {mayAsk && <Aside run={run} hasEnded={hasEnded} />}
    </section>
  );
});

/** One of its limits waits for this. */
function Signal({ run, name }: { run: string; name: string }) {
  const { client } = useStore();
  const { isBusy, problem, press } = usePressing();
  const says = shownLine(name, 80);
  return (
    <div class="signal">
      <span>
        One of its limits waits until somebody says that <q>{says}</q> has happened.
      </span>
      <button
        type="button"
        aria-busy={isBusy}
        aria-label={`${says} has happened`}
        onClick={() => press(() => client.command(run, "signal", { name }))}
      >
        It has happened
      </button>
      <p role="alert" class="problem">
        {problem}
      </p>
    </div>
  );
}

/** Its own run answers, which knows what this one has done. This one is not disturbed. */
function Aside({ run, hasEnded }: { run: string; hasEnded: boolean }) {
  const { client } = useStore();
  const [question, setQuestion] = useState("");
  const { isBusy, problem, press } = usePressing();
  const ask = async (): Promise<void> => {
    location.hash = hrefOf({ at: "run", run: await client.begin(run, "aside", { question: question.trim() }) });
  };
  return (
    <form
      class="ask"
      onSubmit={(event) => {
        event.preventDefault();
        if (question.trim()) void press(ask);
      }}
    >
      <label>
        Ask about it
        <input
          value={question}
          maxLength={4000}
          autocomplete="off"
          aria-describedby="aside-says"
          onInput={(event) => setQuestion(event.currentTarget.value)}
        />
      </label>
      <button type="submit" aria-busy={isBusy} disabled={!question.trim()}>
        Ask
      </button>
      <p class="aside" id="aside-says">
        {hasEnded
          ? "A run of its own answers, and knows what was done. This one stays as it is."
          : "A run of its own answers, and knows what was done so far. This one goes on as if nobody had asked."}
      </p>
      <p role="alert" class="problem">
        {problem}
      </p>
    </form>
  );
}
