/** The call as it will be made: the tool and every argument on a line of its own, from the journal. */
import type { RefObject } from "preact";
import { shown, shownLine } from "../../shown";
import type { Json } from "../../wire/types";

interface CallProps {
  tool: string;
  args: Json;
  box: RefObject<HTMLDivElement | null>;
}

export function TrueCall({ tool, args, box }: CallProps) {
  const isNamed = args !== null && typeof args === "object" && !Array.isArray(args);
  const given: [string, Json][] = isNamed ? Object.entries(args) : [["", args]];
  return (
    <div class="call" ref={box}>
      <p class="tool">{shownLine(tool, 80)}</p>
      <div class="args mono" tabIndex={0} role="group" aria-label={`Arguments of ${shownLine(tool, 80)}`}>
        <dl>
        {given.map(([name, value]) => (
          <div key={name}>
            {name && <dt>{shownLine(name, 60)}</dt>}
            <dd>{shown(JSON.stringify(value))}</dd>
          </div>
        ))}
        {!given.length && (
          <div>
            <dd class="aside">no arguments</dd>
          </div>
        )}
        </dl>
      </div>
    </div>
  );
}
