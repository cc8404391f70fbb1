/** @jsxImportSource ../draw */
/** Other caps for a run that its limits have paused: one field each, with what seems enough. */

import type { JSX } from "preact";
import type { Cap, Panel } from "../../wire/types";
import type { BarModel } from "../model";
import { dollars } from "../words";
import { closesOnEscape } from "./escape";

const UNIT: Record<Cap, string> = {
  steps: "steps",
  usd: "US dollars",
  tokens: "tokens",
  tool_calls: "tool calls",
  working_s: "seconds of work",
};

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
          <span class="text">
            {`${UNIT[one.cap]}, ${amount(one.cap, one.used)} of ${amount(one.cap, one.of)} used`}
          </span>
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

function amount(cap: Cap, value: number): string {
  return cap === "usd" ? dollars(value * 1_000_000) : String(value);
}
