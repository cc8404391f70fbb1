/** How messages of a stream become what is shown. Pure: the same messages give the same view. */
import type { Panel, RunState, StreamMessages } from "../../wire/types";
import { Draft } from "./draft";
import { apply } from "./records";
import { grow, hold, letGo } from "./texts";
import type { View } from "./view";

export type Message = {
  [Name in keyof StreamMessages]: { event: Name; data: StreamMessages[Name] };
}[keyof StreamMessages];

/** Text stops being shown when one of these begins, and goes on when it ends. */
const HELD: ReadonlySet<RunState> = new Set(["pausing", "paused", "cancelling", "cancelled"]);

export function reduce(view: View, message: Message): View {
  return reduceAll(view, [message]);
}

/** Take in what came since the last frame. Text that came with the news that the run was stopped, or that
 * was read and is not in what is `shown`, is not shown any more: nobody has seen it yet. */
export function reduceAll(view: View, messages: readonly Message[], shown: View = view): View {
  const draft = new Draft(view, shown);
  for (const message of messages) take(draft, message);
  return draft.view;
}

/** Show what came after somebody had stopped it: only because they ask. */
export function showRest(view: View, part: string): View {
  const draft = new Draft(view);
  draft.part(part, { limit: null });
  return draft.view;
}

function take(draft: Draft, message: Message): void {
  switch (message.event) {
    case "record":
      apply(draft, message.data);
      break;
    case "text":
      grow(draft, message.data);
      break;
    case "anew":
      draft.beginAnew();
      break;
    case "panel":
      turn(draft, message.data);
      break;
    default: // rows, and news about the connection
  }
}

function turn(draft: Draft, panel: Panel): void {
  if (panel.run !== draft.view.run) return;
  const before = draft.view.panel;
  if (before && panel.seq < before.seq) return; // it was on its way when somebody pressed
  draft.view.panel = panel;
  if (!before || panel.state === before.state) return;
  if (HELD.has(panel.state)) {
    if (!HELD.has(before.state)) hold(draft);
  } else if (HELD.has(before.state)) {
    letGo(draft);
  }
}
