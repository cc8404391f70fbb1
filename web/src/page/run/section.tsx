/** An item of the plan, and what happened while it was under way. */
import { useState } from "preact/hooks";
import { shownLine } from "../../shown";
import { memo } from "../memo";
import type { Entry, Section, View } from "../view/view";
import { count } from "../words";
import { ChildLine, Diff, NoteLine, QuestionLine, ToldLine } from "./happened";
import { Said } from "./said";
import { StepLine, Took } from "./step";

const SHOWN = 40; // lines of a section; the ones before are folded
const MORE = 200;

export type ItemState = Section["status"] | "undone" | "held" | "waiting" | "left";

/** What an item is, given what became of the run. */
export function stateOf(section: Section, view: View): ItemState {
  if (section.undone > 0 && section.undone >= section.effects) return "undone";
  if (section.status === "queued" && view.end) return "left";
  if (section.status === "running" && view.panel?.state === "paused") return "held";
  if (section.status === "running" && view.panel?.state === "waiting") return "waiting";
  return section.status;
}

const SIGN: Record<ItemState, string> = {
  queued: "○",
  running: "●",
  done: "✓",
  interrupted: "■",
  undone: "↶",
  held: "‖",
  waiting: "?",
  left: "○",
};
const WORD: Record<ItemState, string> = {
  queued: "Queued",
  running: "Running",
  done: "Done",
  interrupted: "Interrupted",
  undone: "Undone",
  held: "Paused",
  waiting: "Waiting",
  left: "Not started",
};

export function Item({ section, view }: { section: Section; view: View }) {
  const state = stateOf(section, view);
  return (
    <li class={`item ${state}`}>
      <div class="heading">
        <span class="num place">{section.number}</span>
        <span class="sign" aria-hidden="true">
          {SIGN[state]}
        </span>
        <h3>{shownLine(section.text, 200)}</h3>
        <span class="state">{WORD[state]}</span>
        <Took from={state === "waiting" ? 0 : section.from} to={section.to} />
      </div>
      {section.rewrites.map((rewrite, index) => (
        <Diff key={index} {...rewrite} />
      ))}
      <Lines entries={section.entries} view={view} />
    </li>
  );
}

export function Lines({ entries, view }: { entries: readonly Entry[]; view: View }) {
  const [limit, setLimit] = useState(SHOWN);
  if (!entries.length) return null;
  const folded = Math.max(0, entries.length - limit);
  return (
    <div class="lines">
      {folded > 0 && (
        <button type="button" class="quiet" onClick={() => setLimit(limit + MORE)}>
          {folded > MORE
            ? `Show ${MORE} of ${count(folded, "earlier line")}`
            : `Show ${count(folded, "earlier line")}`}
        </button>
      )}
      {entries.slice(folded).map((entry) => (
        <One key={`${entry.kind}-${entry.id}`} entry={entry} it={kept(view, entry)} />
      ))}
    </div>
  );
}

/** Where the rest of a line is kept: a line is drawn anew only when that is another. */
function kept(view: View, entry: Entry): unknown {
  switch (entry.kind) {
    case "step":
      return view.steps.get(entry.id);
    case "text":
      return view.parts.get(entry.id);
    case "note":
      return view.notes.get(entry.id);
    case "told":
      return view.told.get(entry.id);
    case "question":
      return view.questions.get(entry.id);
    case "child":
      return view.children.get(entry.id);
  }
}

const DRAWN = {
  step: (it: never) => <StepLine step={it} />,
  text: (it: never) => <Said part={it} />,
  note: (it: never) => <NoteLine note={it} />,
  told: (it: never) => <ToldLine told={it} />,
  question: (it: never) => <QuestionLine question={it} />,
  child: (it: never) => <ChildLine child={it} />,
};

const One = memo(function One({ entry, it }: { entry: Entry; it: unknown }) {
  return it === undefined ? null : DRAWN[entry.kind](it as never);
});
