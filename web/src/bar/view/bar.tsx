/** @jsxImportSource ../draw */
/** The whole bar. Its parts keep their places and their heights for as long as the run lives. */

import type { JSX } from "preact";
import { shownLine } from "../../shown";
import type { BarModel } from "../model";
import { Actions, Extras } from "./actions";
import { Between } from "./between";
import { Head } from "./head";
import { Reasons } from "./reasons";
import { ReceiptLines } from "./receipt";
import { Text } from "./text";

export function Bar({ model, announcement }: { model: BarModel; announcement: string }): JSX.Element {
  const { panel } = model;
  const name = panel ? shownLine(`Run ${panel.run} of ${panel.agent}`) : "Run";
  return (
    <div class="bar" role="region" data-state={panel?.state ?? ""} aria-label={name} tabIndex={-1}>
      {panel ? <Head model={model} panel={panel} /> : <Absent model={model} />}
      <div class="middle">
        {panel ? <Between model={model} panel={panel} /> : <Why refused={model.refused} />}
        <Extras model={model} />
      </div>
      <div class="lower">
        <Actions model={model} />
        {panel && !panel.ended && model.mayStop ? <Reasons model={model} /> : <div class="reasons" />}
        <p class={model.notice ? "foot notice" : "foot"} role="status" id="hint">
          {foot(model)}
        </p>
      </div>
      {panel?.ended && model.isReceiptOpen && (
        <div id="receipt">
          <ReceiptLines receipt={model.receipt} />
        </div>
      )}
      <p class="unseen" role="status">
        {announcement}
      </p>
    </div>
  );
}

function Absent({ model }: { model: BarModel }): JSX.Element {
  return (
    <div class="head">
      <p class="state">
        <span class="sign" aria-hidden="true">
          ○
        </span>
        <strong>{model.refused ? "This run cannot be shown" : "Connecting"}</strong>
      </p>
    </div>
  );
}

function Why({ refused }: { refused: string }): JSX.Element {
  return (
    <div class="between">
      <p class="line">
        <Text of={refused} />
      </p>
    </div>
  );
}

function foot(model: BarModel): JSX.Element | string {
  if (model.notice) return <Text of={model.notice} />;
  if (model.refused && model.panel) return <Text of={model.refused} />;
  if (!model.connected) return "Connection lost; the run goes on. Trying again …";
  if (model.open === "redirect" || model.open === "continue") return "Enter sends · Shift+Enter new line · Esc closes";
  if (model.reason) return "Goes with a pause, redirect or cancel.";
  return <Text of={model.panel?.alone ?? ""} />;
}
