/** @jsxImportSource ../draw */
/** The buttons, each with what it will do, beneath it. One that cannot act says why instead. */

import type { JSX } from "preact";
import type { Button } from "../../wire/types";
import type { BarModel } from "../model";
import { MAIN, type Place } from "../places";
import { Icon } from "./icons";
import { Text } from "./text";

export function Actions({ model }: { model: BarModel }): JSX.Element {
  const shown = [...model.buttons].filter(([place]) => !place.startsWith("extra-"));
  return (
    <div class={model.panel?.ended ? "actions ended" : "actions"} role="group" aria-label="Controls">
      {model.panel?.ended && <ReceiptButton model={model} />}
      {shown.map(([place, button]) => (
        <Action key={place} model={model} place={place} button={button} />
      ))}
    </div>
  );
}

/** What only sometimes is there stands beside the two lines, and moves none of the three. */
export function Extras({ model }: { model: BarModel }): JSX.Element {
  const shown = [...model.buttons].filter(([place]) => place.startsWith("extra-"));
  return (
    <div class="extras">
      {shown.map(([place, button]) => (
        <Action key={place} model={model} place={place} button={button} />
      ))}
    </div>
  );
}

function Action({ model, place, button }: { model: BarModel; place: Place; button: Button }): JSX.Element {
  const isOpen = model.open === button.verb;
  const opens = ["redirect", "raise", "continue"].includes(button.verb);
  return (
    <div class={MAIN.includes(place) ? `action at-${place}` : "action"}>
      <button
        type="button"
        class={button.strong ? "press strong" : "press"}
        data-place={place}
        data-verb={button.verb}
        data-off={button.off ? "" : undefined}
        aria-disabled={button.off !== "" || !model.isArmed(place)}
        aria-busy={model.isBusy(button.verb)}
        aria-expanded={opens ? isOpen : undefined}
        aria-describedby={`says-${place}`}
        onClick={() => model.press(place)}
      >
        <Icon verb={button.verb} />
        <Text of={button.label} />
      </button>
      <p class="says" id={`says-${place}`}>
        <Text of={button.off || button.says} />
      </p>
    </div>
  );
}

function ReceiptButton({ model }: { model: BarModel }): JSX.Element {
  return (
    <div class="action">
      <button
        type="button"
        class="press"
        aria-expanded={model.isReceiptOpen}
        aria-controls="receipt"
        aria-busy={model.isBusy("receipt")}
        aria-describedby="says-receipt"
        onClick={() => model.toggleReceipt()}
      >
        <Icon verb="receipt" />
        <Text of="Receipt" />
      </button>
      <p class="says" id="says-receipt">
        what happened, what was taken back
      </p>
    </div>
  );
}
