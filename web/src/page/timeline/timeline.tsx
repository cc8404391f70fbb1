/** When it worked, was held, waited; what ran when; and who pressed what. */
import { effect } from "@preact/signals";
import { useEffect, useRef, useState } from "preact/hooks";
import { memo } from "../memo";
import { useStore } from "../store";
import type { View } from "../view/view";
import { asFile, save } from "./export";
import { layOut, type Picture } from "./layout";
import { Drawing } from "./picture";

const GUTTER = 56;
const NARROW = 560;
const REDRAW_MS = 500; // it is a picture, not a meter

export const Timeline = memo(function Timeline({ run }: { run: string }) {
  const store = useStore();
  const box = useRef<HTMLDivElement>(null);
  const [picture, setPicture] = useState<Picture | null>(null);
  useEffect(() => {
    let drawn: View | null = null;
    let wide = 0;
    const draw = (): void => {
      const view = store.view.peek();
      const width = Math.floor(box.current?.clientWidth ?? 0);
      const isMoving = Boolean(view && !view.end);
      if (!view || !width || (view === drawn && width === wide && !isMoving)) return;
      drawn = view;
      wide = width;
      setPicture(layOut(view, view.end?.at ?? nowOf(view), width < NARROW ? 0 : GUTTER, width));
    };
    const whenItIsThere = effect(() => {
      if (store.view.value?.stretches.length && !drawn?.stretches.length) draw();
    });
    draw();
    const timer = setInterval(draw, REDRAW_MS);
    return () => {
      whenItIsThere();
      clearInterval(timer);
    };
  }, [run]);
  const isDrawn = picture !== null && picture.segments.length > 0;
  const saveIt = (): void => {
    const svg = box.current?.querySelector("svg");
    if (svg) save(asFile(svg), `pullcord-${run}.svg`);
  };
  return (
    <section aria-labelledby="timeline-title" class="timeline" id="timeline">
      <div class="titled">
        <h2 id="timeline-title">Timeline</h2>
        <button type="button" class="quiet" onClick={saveIt}>
          Save as SVG
        </button>
      </div>
      <div ref={box}>{isDrawn && <Drawing picture={picture} />}</div>
      {isDrawn && <Legend /> /* its shapes are those of the picture */}
    </section>
  );
});

/** The journal's time, carried on by the clock of whoever looks: a picture can bear the difference. */
function nowOf(view: View): number {
  return Math.max(view.at, Date.now());
}

const KINDS = [
  ["working", "working"],
  ["paused", "paused"],
  ["waiting", "waiting for somebody"],
  ["queued", "queued"],
  ["cancelling", "on its way to a stop"],
] as const;

function Legend() {
  return (
    <ul class="legend">
      {KINDS.map(([pace, words]) => (
        <li key={pace}>
          <svg class="picture" width="20" height="12" aria-hidden="true">
            <g class={`stretch ${pace}`}>
              <rect
                x="0"
                y={pace === "queued" ? 5 : 0}
                width="20"
                height={pace === "queued" ? 2 : 12}
                {...fillOf(pace)}
              />
            </g>
          </svg>
          {words}
        </li>
      ))}
      <li>
        <span aria-hidden="true">‖ ▶ ↪ ■ ✓</span> somebody pressed
      </li>
    </ul>
  );
}

function fillOf(pace: string): { fill?: string } {
  const fills: Record<string, string> = {
    paused: "url(#held)",
    waiting: "url(#dots)",
    cancelling: "url(#slant)",
  };
  const fill = fills[pace];
  return fill ? { fill } : {};
}
