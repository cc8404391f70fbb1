/** @jsxImportSource ../draw */
/** Redirect, in place: the line that is added is the field itself, so what you type is the diff. */

import type { JSX } from "preact";
import type { Panel } from "../../wire/types";
import type { BarModel } from "../model";
import { Line } from "./between";
import { closesOnEscape } from "./escape";
import { Text } from "./text";

export function Composer({ model, panel }: { model: BarModel; panel: Panel }): JSX.Element {
  const send = (event: Event): void => {
    event.preventDefault();
    void model.sendRedirect();
  };
  const enter = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
  };
  const isBusy = model.isBusy("redirect");
  return (
    <form class="between" onSubmit={send} onKeyDown={(event) => closesOnEscape(event, model)}>
      <Line kind="removed" name="- next">
        {panel.next ? <Text of={panel.next.before} /> : "what it would do by itself"}
      </Line>
      <div class="line added">
        <label class="name" for="instruction">
          + next
        </label>
        <textarea
          id="instruction"
          class="field"
          rows={Math.min(4, model.draft.split("\n").length)}
          placeholder="What it should do instead"
          aria-label="New instruction for the next step"
          aria-describedby="hint"
          autocomplete="off"
          readOnly={isBusy}
          value={model.draft}
          onInput={(event) => model.write(event.currentTarget.value)}
          onKeyDown={enter}
        />
        <button class="small strong" type="submit" aria-busy={isBusy} aria-disabled={!model.draft.trim()}>
          Send
        </button>
        <button class="small" type="button" onClick={() => model.close()}>
          Close
        </button>
      </div>
    </form>
  );
}
