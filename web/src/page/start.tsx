/** Starting a run: who, with what, on which thread, and when it is to stop by itself. */
import { useEffect, useState } from "preact/hooks";
import { shownLine } from "../shown";
import type { Agent } from "../wire/types";
import { Back } from "./back";
import { limitsOf, read } from "./given";
import { usePressing } from "./pressing";
import { hrefOf } from "./routes";
import { useStore } from "./store";

const THEN = {
  pause_and_ask: "it pauses and asks",
  wrap_up: "it gives a last answer and stops",
  stop: "it stops",
} as const;
const BUSY = {
  refuse: "refuse",
  queue: "wait until it is free",
  redirect: "tell the run that has it",
} as const;

export function StartScreen() {
  const store = useStore();
  const [agents, setAgents] = useState<Agent[] | null>(null);
  const [name, setName] = useState("");
  const [input, setInput] = useState("");
  const [thread, setThread] = useState("");
  const [ifBusy, setIfBusy] = useState<keyof typeof BUSY>("refuse");
  const [usd, setUsd] = useState("");
  const [steps, setSteps] = useState("");
  const [then, setThen] = useState<keyof typeof THEN>("pause_and_ask");
  const { isBusy, problem, press } = usePressing();

  useEffect(() => {
    void press(async () => {
      const found = await store.client.agents();
      setAgents(found);
      setName(found[0]?.name ?? "");
    });
  }, []);

  const agent = agents?.find((one) => one.name === name);
  const given = read(agent?.wants_input === false ? "" : input);
  const limits = limitsOf(usd, steps);

  function start(): Promise<void> {
    return press(async () => {
      const run = await store.client.start(name, {
        ...(given.value === null ? {} : { input: given.value }),
        ...(thread.trim() ? { thread: thread.trim(), if_busy: ifBusy } : {}),
        ...(Object.keys(limits).length ? { limits, on_exhausted: then } : {}),
      });
      location.hash = hrefOf({ at: "run", run });
    });
  }

  if (agents && !agents.length) return <NoAgents />;
  return (
    <div class="screen">
      <header>
        <Back />
        <h1>Start a run</h1>
      </header>
      <form
        class="start"
        onSubmit={(event) => {
          event.preventDefault();
          void start();
        }}
      >
        <label>
          Agent
          <select
            value={name}
            aria-describedby="agent-says"
            onChange={(event) => setName(event.currentTarget.value)}
          >
            {(agents ?? []).map((one) => (
              <option key={one.name} value={one.name}>
                {shownLine(one.name, 60)}
              </option>
            ))}
          </select>
        </label>
        <p class="aside" id="agent-says">
          {shownLine(agent?.about ?? "")}
        </p>
        {agent?.wants_input !== false && (
          <>
            <label>
              Input
              <textarea
                aria-describedby="input-says"
                class="mono"
                rows={5}
                value={input}
                spellcheck={false}
                onInput={(event) => setInput(event.currentTarget.value)}
              />
            </label>
            <p class="aside" id="input-says">
              {given.says}
            </p>
          </>
        )}
        <label>
          Thread
          <input
            class="mono"
            value={thread}
            maxLength={64}
            aria-describedby="thread-says"
            onInput={(event) => setThread(event.currentTarget.value)}
          />
        </label>
        <p class="aside" id="thread-says">
          Runs on one thread know what was said and done before. Empty: a new one.
        </p>
        {thread.trim() && (
          <label>
            If a run has that thread
            <Select value={ifBusy} words={BUSY} onChange={setIfBusy} />
          </label>
        )}
        <fieldset aria-describedby="limits-say">
          <legend>Limits</legend>
          <label>
            US dollars
            <input
              class="num"
              inputMode="decimal"
              value={usd}
              onInput={(event) => setUsd(event.currentTarget.value)}
            />
          </label>
          <label>
            Steps
            <input
              class="num"
              inputMode="numeric"
              value={steps}
              onInput={(event) => setSteps(event.currentTarget.value)}
            />
          </label>
          <label>
            At the limit
            <Select value={then} words={THEN} onChange={setThen} />
          </label>
          <p class="aside" id="limits-say">
            Empty: the agent's own limits.
          </p>
        </fieldset>
        <button type="submit" class="strong" disabled={isBusy || !name}>
          Start
        </button>
        <p role="alert" class="problem">
          {problem}
        </p>
      </form>
    </div>
  );
}

interface SelectProps<K extends string> {
  value: K;
  words: Record<K, string>;
  onChange: (value: K) => void;
}

function Select<K extends string>({ value, words, onChange }: SelectProps<K>) {
  return (
    <select value={value} onChange={(event) => onChange(event.currentTarget.value as K)}>
      {(Object.entries(words) as [K, string][]).map(([key, text]) => (
        <option key={key} value={key}>
          {text}
        </option>
      ))}
    </select>
  );
}

function NoAgents() {
  return (
    <div class="screen">
      <header>
        <Back />
        <h1>Start a run</h1>
      </header>
      <p class="empty">
        This server knows no agents. Name some when you start it: <code>pullcord serve FILE.py:AGENT</code>
      </p>
    </div>
  );
}
