/** Where a moment is on a line as wide as the picture. A long pause is drawn short, and marked as that. */
import type { Stretch } from "../view/view";

export interface Segment {
  stretch: Stretch;
  from: number; // ms
  to: number;
  x: number;
  width: number;
  isSqueezed: boolean;
}

const BUSY = new Set<Stretch["pace"]>(["working", "pausing", "stopping", "cancelling"]);
const IDLE_SHARE = 0.2; // of the time it worked: no idle stretch is drawn longer
const WIDTH_MIN = 3;

export function segmentsOf(
  stretches: readonly Stretch[],
  now: number,
  left: number,
  width: number,
): Segment[] {
  const spans = stretches.map((stretch) => Math.max(1, (stretch.to || now) - stretch.from));
  const worked = spans.reduce((sum, span, i) => sum + (BUSY.has(stretches[i]!.pace) ? span : 0), 0);
  const longest = Math.max(1_000, worked * IDLE_SHARE);
  const drawn = spans.map((span, i) =>
    BUSY.has(stretches[i]!.pace) || !worked ? span : Math.min(span, longest),
  );
  const total = drawn.reduce((sum, span) => sum + span, 0) || 1;
  const room = Math.max(1, width - WIDTH_MIN * drawn.length);
  let x = left;
  return stretches.map((stretch, i) => {
    const wide = WIDTH_MIN + (drawn[i]! / total) * room;
    const segment = {
      stretch,
      from: stretch.from,
      to: stretch.to || now,
      x,
      width: wide,
      isSqueezed: drawn[i]! < spans[i]!,
    };
    x += wide;
    return segment;
  });
}

export function place(segments: readonly Segment[], at: number): number {
  const first = segments[0];
  const last = segments.at(-1);
  if (!first || !last) return 0;
  if (at <= first.from) return first.x;
  const segment = segments.find((one) => at <= one.to) ?? last;
  const share = (at - segment.from) / Math.max(1, segment.to - segment.from);
  return segment.x + Math.min(1, Math.max(0, share)) * segment.width;
}
