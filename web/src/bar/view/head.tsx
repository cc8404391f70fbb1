/** @jsxImportSource ../draw */
/** The first line: what is happening, who and why; at the right how long, how far and how much. */

import type { JSX } from "preact";
import type { Panel } from "../../wire/types";
import type { BarModel } from "../model";
import { about, byWhom, clock, elapsed, timesInWords } from "../words";
import { Text } from "./text";

export function Head({ model, panel }: { model: BarModel; panel: Panel }): JSX.Element {
  const by = byWhom(panel, model.me);
  return (
    <div class="head">
      <p class="state">
        <span class="sign" aria-hidden="true">
          {panel.sign}
        </span>
        <strong>
          {panel.label}
          {by && " "}
          {by && <Text of={by} />}
        </strong>
        {about(panel, model.holdLeftMs).map((part, at) => (
          <span key={at}>
            {" · "}
            <Text of={part} />
          </span>
        ))}
      </p>
      <Numbers panel={panel} sinceMs={model.sinceMs} />
    </div>
  );
}

function Numbers({ panel, sinceMs }: { panel: Panel; sinceMs: number }): JSX.Element {
  const worked = clock(elapsed(panel, "working_ms", sinceMs));
  const caps = panel.meters.map((meter) => meter.says).join(" · ");
  const more = [panel.spent, caps].filter(Boolean).join("\n");
  return (
    <p class="numbers">
      <span role="timer" aria-label={`Working time ${worked}`} title={timesInWords(panel, sinceMs)}>
        {worked}
      </span>
      {panel.readings.map((reading, at) => (
        <span key={at} class={reading.near ? "near" : ""} title={more}>
          {reading.says}
        </span>
      ))}
    </p>
  );
}
