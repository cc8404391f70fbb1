/** What the agent said or thought, and a mark where it was cut. */
import { useState } from "preact/hooks";
import { memo } from "../memo";
import { useStore } from "../store";
import type { Part } from "../view/view";
import { count } from "../words";
import { Growing } from "./growing";

export const Said = memo(function Said({ part }: { part: Part }) {
  if (part.kind === "thought") return <Thought part={part} />;
  return (
    <div class={`said ${part.state}`}>
      <Words part={part} />
    </div>
  );
});

function Thought({ part }: { part: Part }) {
  const [isOpen, open] = useState(false);
  return (
    <details class="thought" onToggle={(event) => open(event.currentTarget.open)}>
      <summary>
        {part.state === "live" ? "Thinking" : "Thought"}
        <span class="num"> {count(part.points, "character")} </span>
      </summary>
      {isOpen && <Words part={part} />}
    </details>
  );
}

export function Words({ part }: { part: Part }) {
  const store = useStore();
  const [isWhole, showAll] = useState(false);
  const [folded, setFolded] = useState(0);
  const kept = part.limit === null ? 0 : part.text.length - part.limit;
  return (
    <>
      {folded > 0 && !isWhole && (
        <button type="button" class="quiet" onClick={() => showAll(true)}>
          Show {count(folded, "earlier character")}
        </button>
      )}
      <Growing part={part} all={isWhole} onFolded={setFolded} />
      {part.state === "cut" && <span class="cut-mark"> {part.mark}</span>}
      {kept > 0 && part.state !== "live" && (
        <button type="button" class="quiet" onClick={() => store.showRest(part.id)}>
          Show {count(kept, "character")} that came after the stop
        </button>
      )}
    </>
  );
}
