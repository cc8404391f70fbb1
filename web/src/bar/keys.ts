/** What a single key asks of the bar. None of them destroys anything: Cancel only gets the focus. */

import type { Place } from "./places";

const KEYS: Record<string, Place> = { p: "go", r: "redirect", c: "cancel" };

export function placeOfKey(event: KeyboardEvent): Place | undefined {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey && !event.repeat && !event.isComposing;
  return isPlain && !event.defaultPrevented && !isTyping(event) ? KEYS[event.key] : undefined;
}

function isTyping(event: KeyboardEvent): boolean {
  const [at] = event.composedPath();
  return at instanceof HTMLElement && (at.matches("input, textarea, select") || at.isContentEditable);
}
