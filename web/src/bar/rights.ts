/** What a button says to somebody whose right does not reach it. */

import type { ButtonVerb, Button, Right } from "../wire/types";
import { NEEDS } from "../wire/verbs";

const RIGHTS = ["view", "stop", "control", "approve", "admin"];
/** Those of the commands, and of what is none: it shows what waits, or starts a new run. */
const NEEDED: Record<ButtonVerb, Right> = { ...NEEDS, review: "view", continue: "control", fork: "control" };
const OFF: Record<string, string> = {
  stop: "you may watch it, not stop it",
  control: "you may watch it or stop it, nothing else",
  approve: "you may stop it, not let it use more",
};

/** `right`: of whoever looks; empty if nobody knows, and then the server decides. */
export function within(right: string, button: Button): Button {
  const needed = NEEDED[button.verb];
  if (!right || RIGHTS.indexOf(right) >= RIGHTS.indexOf(needed)) return button;
  const off = right === "view" ? OFF["stop"] : OFF[needed];
  return { ...button, off: off ?? "", strong: false };
}
