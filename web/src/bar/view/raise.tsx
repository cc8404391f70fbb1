/** @jsxImportSource ../draw */
/** Other caps for a run that its limits have paused: one field each, with what seems enough. */

import type { JSX } from "preact";
import type { Panel } from "../../wire/types";
import type { BarModel } from "../model";
import { closesOnEscape } from "./escape";

export function Raise({ model, panel }: { model: BarModel; panel: Panel }): JSX.Element {
  const send = (event: Event): void => {
    event.preventDefault();
    void model.sendRaise();
  };
  return (
    <form class="between raise" onSubmit={send} onKeyDown={(event) => closesOnEscape(event, model)} noValidate>
      {panel.raise.map((one) => (
        <label class="line" key={one.cap}>
          <span class="name">cap</span>
          <input
            class="field number"
            inputMode="decimal"
            autocomplete="off"
            value={model.caps[one.cap] ?? ""}
            onInput={(event) => model.setCap(one.cap, event.currentTarget.value)}
          />
          <span class="text">{one.says}</span>
        </label>
      ))}
      <div class="line ends">
        <button class="small strong" type="submit" aria-busy={model.isBusy("raise")}>
          Set
        </button>
        <button class="small" type="button" onClick={() => model.close()}>
          Close
        </button>
      </div>
    </form>
  );
}
