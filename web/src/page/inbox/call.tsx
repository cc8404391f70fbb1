/** The call as it will be made: the tool and every argument on a line of its own, from the journal.
 *
 * However long an argument is, its beginning, its end and all the others stay in view. */
import { type RefObject } from "preact";
import { useState } from "preact/hooks";
import { shown, shownLine } from "../../shown";
import type { Json } from "../../wire/types";
import { number } from "../words";

interface CallProps {
  tool: string;
  args: Json;
  box: RefObject<HTMLDivElement | null>;
}

export function TrueCall({ tool, args, box }: CallProps) {
  const given = argumentsOf(args);
  return (
    <div class="call" ref={box}>
      <p class="tool">{shownLine(tool, 80)}</p>
      <div class="args mono" tabIndex={0} role="group" aria-label={`Arguments of ${shownLine(tool, 80)}`}>
        <dl>
          {given.map(([name, value]) => (
            <div key={name}>
              <dt>{shownLine(name, 60)}</dt>
              <dd>
                <Argument text={JSON.stringify(value)} />
              </dd>
            </div>
          ))}
        </dl>
        {!given.length && <p class="aside">no arguments</p>}
      </div>
    </div>
  );
}

export function argumentsOf(args: Json): [string, Json][] {
  if (args === null) return [];
  return typeof args === "object" && !Array.isArray(args) ? Object.entries(args) : [["value", args]];
}

const HEAD = 120;
const TAIL = 80;

function Argument({ text }: { text: string }) {
  const [isWhole, show] = useState(false);
  const hidden = text.length - HEAD - TAIL;
  if (isWhole || hidden <= 0) return <>{shown(text)}</>;
  return (
    <>
      {shown(text.slice(0, HEAD))}
      <button type="button" class="quiet" onClick={() => show(true)}>
        … show {number(hidden)} characters more …
      </button>
      {shown(text.slice(-TAIL))}
    </>
  );
}
