/** What cannot be begun while the kill switch is engaged says so on its button, and by whom that is changed. */
import type { ButtonVerb, Engaged, KillSwitch, Panel } from "../../wire/types";

const BEGINS: readonly ButtonVerb[] = ["resume", "continue", "fork"];

/** The panel as it is for somebody who may release the switch, or may not. */
export function held(panel: Panel, now: KillSwitch | null, mayRelease: boolean): Panel {
  if (!now?.engaged.some((one) => covers(one, panel))) return panel;
  const off = mayRelease
    ? "the kill switch is engaged: release it first, at the top"
    : "the kill switch is engaged: an admin has to release it first";
  const buttons = panel.buttons.map((button) =>
    BEGINS.includes(button.verb) ? { ...button, off, strong: false } : button,
  );
  return { ...panel, buttons };
}

function covers({ scope, name }: Engaged, panel: Panel): boolean {
  return scope === "all" || panel[scope] === name;
}
