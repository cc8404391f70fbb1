/** @jsxImportSource ../draw */
/** Words, in place: for the next step of a run that goes on, or for the next run after one that has ended. */

import type { JSX } from "preact";
import type { Panel } from "../../wire/types";
import type { BarModel } from "../model";
import { Line } from "./between";
import { closesOnEscape } from "./escape";
import { Text } from "./text";

/** Redirect: the line that is added is the field itself, so what you type is the diff. */
export function Composer({ model, panel }: { model: BarModel; panel: Panel }): JSX.Element {
  return (
    <Words
      model={model}
      verb="redirect"
      name="+ next"
      placeholder="What it should do instead"
      label="New instruction for the next step"
      button="Send"
      send={() => void model.sendRedirect()}
    >
      <Line kind="removed" name="- next">
        {panel.next ? <Text of={panel.next.after} /> : "what it would do by itself"}
      </Line>
    </Words>
  );
}

/** Continue from here: nothing is sent before somebody has written what comes next. */
export function Continuing({ model }: { model: BarModel }): JSX.Element {
  return (
    <Words
      model={model}
      verb="continue"
      name="+ next"
      placeholder="What it should do next"
      label="What the next run is told"
      button="Start"
      send={() => void model.sendContinue()}
    >
      <Line kind="" name="then">
        a new run begins: a model knows what was said here, a function begins from the top
      </Line>
    </Words>
  );
}

interface WordsProps {
  model: BarModel;
  verb: "redirect" | "continue";
  name: string;
  placeholder: string;
  label: string;
  button: string;
  send: () => void;
  children: JSX.Element;
}

function Words({ model, verb, name, placeholder, label, button, send, children }: WordsProps): JSX.Element {
  const submit = (event: Event): void => {
    event.preventDefault();
    send();
  };
  const enter = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) submit(event);
  };
  const isBusy = model.isBusy(verb);
  return (
    <form class="between" onSubmit={submit} onKeyDown={(event) => closesOnEscape(event, model)}>
      {children}
      <div class="line added">
        <label class="name" for="instruction">
          {name}
        </label>
        <textarea
          id="instruction"
          class="field"
          rows={Math.min(4, model.draft.split("\n").length)}
          placeholder={placeholder}
          aria-label={label}
          aria-describedby="hint"
          autocomplete="off"
          readOnly={isBusy}
          value={model.draft}
          onInput={(event) => model.write(event.currentTarget.value)}
          onKeyDown={enter}
        />
        <button class="small strong" type="submit" aria-busy={isBusy} aria-disabled={!model.draft.trim()}>
          {button}
        </button>
        <button class="small" type="button" onClick={() => model.close()}>
          Close
        </button>
      </div>
    </form>
  );
}
