/** @jsxImportSource ../draw */
/** The two lines between the state and the buttons. Always two, so that nothing below them moves. */

import type { ComponentChildren, JSX } from "preact";
import type { Panel, RunState } from "../../wire/types";
import type { BarModel } from "../model";
import { Composer, Continuing } from "./composer";
import { Raise } from "./raise";
import { Text } from "./text";

/** Nothing comes next any more, whatever was planned. */
const ENDING = new Set<RunState>(["cancelling", "stopping"]);

export function Between({ model, panel }: { model: BarModel; panel: Panel }): JSX.Element {
  if (model.open === "redirect") return <Composer model={model} panel={panel} />;
  if (model.open === "continue") return <Continuing model={model} />;
  if (model.open === "raise") return <Raise model={model} panel={panel} />;
  if (panel.ended) return <Ended panel={panel} />;
  const { next } = panel;
  if (next && next.before !== next.after) {
    return (
      <div class="between">
        <Line kind="removed" name="- next">
          <Text of={next.before} />
        </Line>
        <Line kind="added" name="+ next">
          <Text of={next.after} />
        </Line>
      </div>
    );
  }
  return (
    <div class="between">
      <p class="line">
        <Text of={panel.says} />
      </p>
      <Coming panel={panel} />
    </div>
  );
}

function Ended({ panel }: { panel: Panel }): JSX.Element {
  return (
    <div class="between">
      <p class="line">
        <Text of={panel.says} />
      </p>
      <p class="line tally">
        {panel.did}
        {panel.needs && <strong>{`${panel.did && " · "}${panel.needs}`}</strong>}
      </p>
    </div>
  );
}

function Coming({ panel }: { panel: Panel }): JSX.Element {
  const told = panel.told.at(-1);
  const next = ENDING.has(panel.state) ? null : panel.next;
  if (told !== undefined) {
    return (
      <Line kind="added" name="+ next">
        <Text of={told} />
      </Line>
    );
  }
  return (
    <Line kind="" name={next ? "next" : ""}>
      {next && <Text of={next.after} />}
    </Line>
  );
}

export function Line({ kind, name, children }: { kind: string; name: string; children: ComponentChildren }): JSX.Element {
  return (
    <p class={`line ${kind}`}>
      <span class="name">{name}</span>
      <span class="text">{children}</span>
    </p>
  );
}
