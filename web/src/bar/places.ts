/** Where each button stands. The three thoughts keep their places for as long as the run lives. */

import type { Button, ButtonVerb, Panel } from "../wire/types";
import { within } from "./rights";

export type Place = "go" | "redirect" | "cancel" | `extra-${ButtonVerb}` | `end-${ButtonVerb}`;

const THOUGHTS: Partial<Record<ButtonVerb, Place>> = {
  pause: "go",
  resume: "go",
  redirect: "redirect",
  cancel: "cancel",
};

/** A place of a run that has ended is never one of a living run: a press too many must not start anything. */
export function places(panel: Panel, right = ""): Map<Place, Button> {
  const found = new Map<Place, Button>();
  for (const button of panel.buttons) {
    const living = THOUGHTS[button.verb] ?? (`extra-${button.verb}` as const);
    found.set(panel.ended ? `end-${button.verb}` : living, within(right, button));
  }
  return found;
}

export const MAIN: Place[] = ["go", "redirect", "cancel"];
