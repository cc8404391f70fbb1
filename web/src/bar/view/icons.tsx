/** @jsxImportSource ../draw */
/** One small drawing per verb, so that a button is known before it is read. */

import type { JSX } from "preact";

const DRAWN: Record<string, string> = {
  pause: "M4.5 3v10M11.5 3v10",
  resume: "M4.5 2.8v10.4L13 8z",
  redirect: "M3 3v4.5a2.5 2.5 0 0 0 2.5 2.5H13M9.8 6.5 13.2 10l-3.4 3.5",
  cancel: "M3.5 3.5h9v9h-9z",
  review: "M1.5 8S4 3.5 8 3.5 14.5 8 14.5 8 12 12.5 8 12.5 1.5 8 1.5 8zM8 6.2a1.8 1.8 0 1 1 0 3.6 1.8 1.8 0 0 1 0-3.6z",
  raise: "M8 13V3.5M3.8 7.5 8 3.3l4.2 4.2",
  continue: "M2.5 8h10.5M9 4l4 4-4 4",
  fork: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3.2H9.8",
  undo: "M3 6h6.5a3.5 3.5 0 0 1 0 7H6M6 3 3 6l3 3",
  receipt: "M3.5 2h9v12l-2.2-1.3L8 14l-2.3-1.3L3.5 14zM6 6h4M6 9h4",
};
const FILLED = new Set(["resume", "cancel"]);

export function Icon({ verb }: { verb: string }): JSX.Element {
  return (
    <svg class={FILLED.has(verb) ? "icon filled" : "icon"} viewBox="0 0 16 16" aria-hidden="true">
      <path d={DRAWN[verb] ?? ""} />
    </svg>
  );
}
