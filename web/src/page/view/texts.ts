/** Text as it comes, as it was when somebody stopped it, and as it was in the end. */
import type { TextEnded } from "../../wire/events";
import type { LiveText, Rec } from "../../wire/types";
import type { Draft } from "./draft";
import type { Part } from "./view";

const PART_MAX = 64; // characters of a part's name on the wire

export function outputPart(step: string, attempt: number): string {
  return `out-${step}-${attempt}`.slice(0, PART_MAX);
}

export function grow(draft: Draft, piece: LiveText): void {
  const part = draft.view.parts.get(piece.part) ?? begin(draft, piece.part, "");
  if (part.state !== "live") return; // its record was here first
  const points = pointsIn(piece.text);
  if (piece.offset + points <= part.points) return; // said again after a reconnection
  const fresh = piece.offset < part.points ? skip(piece.text, part.points - piece.offset) : piece.text;
  draft.part(part.id, {
    text: part.text + fresh,
    points: piece.offset + points,
    to: draft.view.at,
  });
}

export function textEnded(draft: Draft, event: TextEnded, rec: Rec): void {
  const part = draft.view.parts.get(event.part) ?? begin(draft, event.part, event.step ?? "");
  const whole = event.complete !== false;
  draft.part(part.id, {
    text: event.text,
    points: pointsIn(event.text),
    state: whole ? "whole" : "cut",
    mark: (rec.told.facts ?? []).join(" "),
    limit: part.limit !== null && part.limit < event.text.length ? part.limit : null,
    to: rec.at_ms,
  });
}

/** Somebody stopped the run: of what was still being written, what had been shown stays as it is. */
export function hold(draft: Draft): void {
  for (const part of draft.view.parts.values()) {
    const before = draft.shown.parts.get(part.id);
    if (before && before.state !== "live") continue;
    const shown = before ? (before.limit ?? before.text.length) : 0;
    if (part.state === "live" || shown < part.text.length) draft.part(part.id, { limit: shown });
  }
}

/** The run goes on: everything that was kept back is shown, but for what was cut for good. */
export function letGo(draft: Draft): void {
  for (const part of draft.view.parts.values()) {
    if (part.limit !== null && part.state !== "cut") draft.part(part.id, { limit: null });
  }
}

function begin(draft: Draft, id: string, step: string): Part {
  const source = draft.view.outputOf.get(id) ?? (id.startsWith("think-") ? "" : step);
  const kind = id.startsWith("think-") ? "thought" : source ? "output" : "said";
  const at = draft.view.at;
  const part: Part = { id, kind, text: "", points: 0, state: "live", mark: "", limit: null, from: at, to: at };
  draft.put("parts", id, part);
  if (kind === "output") {
    draft.step(source, (known) => ({ output: [...known.output, id] }));
  } else {
    draft.addBeforeStop({ kind: "text", id }); // nothing is begun after a stop
  }
  return part;
}

/** Python counts code points, a browser half of some of them. */
function pointsIn(text: string): number {
  let count = text.length;
  for (let i = 0; i < text.length - 1; i++) {
    const unit = text.charCodeAt(i);
    if (unit >= 0xd800 && unit < 0xdc00) count--;
  }
  return count;
}

function skip(text: string, points: number): string {
  return [...text].slice(points).join("");
}
