/** The picture itself, drawn by hand. Each state has a shape of its own; colour only helps. */
import { shownLine } from "../../shown";
import { duration } from "../words";
import type { Bar, Picture } from "./layout";
import type { Segment } from "./scale";

const MARKS = 20;
const BAND = { y: 24, height: 18 };
const LANE = { y: 52, height: 14, gap: 4 };
const CHAR = 6.2; // how wide a letter is, about

export function Drawing({ picture }: { picture: Picture }) {
  const lanesEnd = LANE.y + picture.lanes.length * (LANE.height + LANE.gap);
  const height = lanesEnd + (picture.bursts.length ? 30 : 16);
  return (
    <svg
      class="picture"
      role="img"
      aria-label={`Timeline. ${shownLine(picture.summary, 400)}`}
      width={picture.width}
      height={height}
      viewBox={`0 0 ${picture.width} ${height}`}
    >
      <title>Timeline of the run</title>
      <desc>{shownLine(picture.summary, 2000)}</desc>
      <Patterns />
      {picture.left > 0 && <Labels picture={picture} textY={lanesEnd + 8} />}
      {picture.segments.map((segment, index) => (
        <Stretch key={index} segment={segment} />
      ))}
      {picture.bars.map((bar, index) => (
        <StepBar key={index} bar={bar} />
      ))}
      {picture.bursts.map((burst, index) => (
        <rect
          key={index}
          class={`burst ${burst.kind}`}
          x={burst.x}
          y={lanesEnd + (burst.kind === "thought" ? 4 : 2)}
          width={burst.width}
          height={burst.kind === "thought" ? 3 : 6}
        />
      ))}
      {picture.marks.map((mark, index) => (
        <g key={index} class="mark">
          <title>{shownLine(mark.says, 400)}</title>
          <line x1={mark.x} x2={mark.x} y1={MARKS - 2} y2={lanesEnd + 10} />
          <text x={mark.signX} y={MARKS - 6} text-anchor="middle">
            {mark.sign}
          </text>
        </g>
      ))}
      <Axis segments={picture.segments} y={height - 4} />
    </svg>
  );
}

/** Shapes: full (working), bars (paused), dots (waiting), a thin line (queued), slanted (on its way to a stop). */
export function Patterns() {
  return (
    <defs>
      <pattern id="held" width="6" height="6" patternUnits="userSpaceOnUse">
        <rect class="ink held" width="2.5" height="6" />
      </pattern>
      <pattern id="dots" width="6" height="6" patternUnits="userSpaceOnUse">
        <circle class="ink waiting" cx="3" cy="3" r="1.5" />
      </pattern>
      <pattern id="slant" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
        <rect class="ink stopping" width="3" height="6" />
      </pattern>
    </defs>
  );
}

const FILL: Partial<Record<string, string>> = {
  paused: "url(#held)",
  waiting: "url(#dots)",
  pausing: "url(#slant)",
  stopping: "url(#slant)",
  cancelling: "url(#slant)",
};

function Stretch({ segment }: { segment: Segment }) {
  const { stretch, x, width } = segment;
  const fill = FILL[stretch.pace];
  const thin = stretch.pace === "queued";
  const y = thin ? BAND.y + BAND.height / 2 - 1 : BAND.y;
  const says = `${stretch.pace}, ${duration(segment.to - segment.from)}`;
  return (
    <g class={`stretch ${stretch.pace}`}>
      <title>{segment.isSqueezed ? `${says} (drawn shorter)` : says}</title>
      <rect
        x={x}
        y={y}
        width={Math.max(1, width - 1)}
        height={thin ? 2 : BAND.height}
        {...(fill ? { fill } : {})}
      />
      {segment.isSqueezed && (
        <path
          class="break"
          d={`M${x + width / 2 - 4} ${BAND.y + BAND.height + 3}l4 ${-BAND.height - 6}m3 0l-4 ${BAND.height + 6}`}
        />
      )}
    </g>
  );
}

function StepBar({ bar }: { bar: Bar }) {
  const y = LANE.y + bar.lane * (LANE.height + LANE.gap);
  const name = shownLine(bar.name, 80);
  const room = Math.floor((bar.width - 8) / CHAR);
  const label = bar.count > 1 || room < 4 ? "" : name.length <= room ? name : `${name.slice(0, room - 1)}…`;
  return (
    <g class={`bar ${bar.kind}`}>
      <title>{bar.count > 1 ? `${bar.count} steps, the first: ${name}` : name}</title>
      <rect x={bar.x} y={y} width={bar.width} height={LANE.height} rx={bar.width > 4 ? 2 : 0} />
      {label && (
        <text x={bar.x + 4} y={y + LANE.height - 3.5}>
          {label}
        </text>
      )}
    </g>
  );
}

function Labels({ picture, textY }: { picture: Picture; textY: number }) {
  return (
    <g class="labels">
      <text x="0" y={MARKS - 6}>
        pressed
      </text>
      <text x="0" y={BAND.y + 13}>
        state
      </text>
      {picture.lanes.map((name, lane) => (
        <text key={lane} x="0" y={LANE.y + lane * (LANE.height + LANE.gap) + 11}>
          {name}
        </text>
      ))}
      {picture.bursts.length > 0 && (
        <text x="0" y={textY}>
          text
        </text>
      )}
    </g>
  );
}

/** Where it begins, and how long it took in all. */
function Axis({ segments, y }: { segments: readonly Segment[]; y: number }) {
  const first = segments[0];
  const last = segments.at(-1);
  if (!first || !last) return null;
  return (
    <g class="axis">
      <text x={first.x} y={y}>
        0 s
      </text>
      <text x={last.x + last.width} y={y} text-anchor="end">
        {duration(last.to - first.from)} in all
      </text>
    </g>
  );
}
