/** What a button says to somebody whose right does not reach it. */

import type { Button } from "../wire/types";

const RIGHTS = ["view", "control", "approve", "admin"];
const NEEDS: Partial<Record<Button["verb"], string>> = { review: "view", raise: "approve" };

/** `right`: of whoever looks; empty if nobody knows, and then the server decides. */
export function within(right: string, button: Button): Button {
  const needed = NEEDS[button.verb] ?? "control";
  if (!right || RIGHTS.indexOf(right) >= RIGHTS.indexOf(needed)) return button;
  const off = needed === "approve" ? "you may stop it, not let it use more" : "you may watch it, not stop it";
  return { ...button, off, strong: false };
}
