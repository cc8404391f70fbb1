/** What a button says to somebody whose right does not reach it. */

import type { Button } from "../wire/types";

const RIGHTS = ["view", "stop", "control", "approve", "admin"];
const NEEDS: Partial<Record<Button["verb"], string>> = {
  review: "view",
  pause: "stop",
  resume: "stop",
  cancel: "stop",
  raise: "approve",
};
const OFF: Record<string, string> = {
  stop: "you may watch it, not stop it",
  control: "you may watch it or stop it, nothing else",
  approve: "you may stop it, not let it use more",
};

/** `right`: of whoever looks; empty if nobody knows, and then the server decides. */
export function within(right: string, button: Button): Button {
  const needed = NEEDS[button.verb] ?? "control";
  if (!right || RIGHTS.indexOf(right) >= RIGHTS.indexOf(needed)) return button;
  const off = right === "view" ? OFF["stop"] : OFF[needed];
  return { ...button, off: off ?? "", strong: false };
}
