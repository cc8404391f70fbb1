/** The run as one column that reads like a report: what it was given, what it did, what came of it. */
import { useState } from "preact/hooks";
import type { Section, View } from "../view/view";
import { count } from "../words";
import { Item, Lines } from "./section";

const ITEMS = 30; // of those that are over, and of those that have not begun

export function Report({ view }: { view: View }) {
  const [isAll, showAll] = useState(false);
  const groups = grouped(view.sections);
  return (
    <section class="report" aria-labelledby="report-title" id="report" tabIndex={-1}>
      <h2 id="report-title">What it did</h2>
      {!view.sections.some((section) => section.plan || section.entries.length) && (
        <p class="empty">
          {view.end
            ? "It ended without a step."
            : "Nothing yet. Every step appears here as it begins, with what it may change and whether that can be undone."}
        </p>
      )}
      {groups.map((group) =>
        group.plan ? (
          <Plan
            key={group.key}
            sections={group.sections}
            view={view}
            isAll={isAll}
            showAll={() => showAll(true)}
          />
        ) : (
          <Lines key={group.key} entries={group.sections[0]?.entries ?? []} view={view} />
        ),
      )}
    </section>
  );
}

interface PlanProps {
  sections: readonly Section[];
  view: View;
  isAll: boolean;
  showAll: () => void;
}

function Plan({ sections, view, isAll, showAll }: PlanProps) {
  const begun = sections.filter((section) => section.status !== "queued").length;
  const from = isAll ? 0 : Math.max(0, begun - ITEMS);
  const to = isAll ? sections.length : Math.min(sections.length, begun + ITEMS);
  return (
    <>
      {from > 0 && <Fold text={`Show ${count(from, "earlier item")}`} onClick={showAll} />}
      <ol class="plan" start={from + 1}>
        {sections.slice(from, to).map((section) => (
          <Item key={section.key} section={section} view={view} />
        ))}
      </ol>
      {to < sections.length && (
        <Fold text={`Show ${count(sections.length - to, "later item")}`} onClick={showAll} />
      )}
    </>
  );
}

function Fold({ text, onClick }: { text: string; onClick: () => void }) {
  return (
    <button type="button" class="quiet" onClick={onClick}>
      {text}
    </button>
  );
}

interface Group {
  key: string;
  plan: string;
  sections: Section[];
}

/** Items of one plan belong together; what happened around plans stands by itself. */
function grouped(sections: readonly Section[]): Group[] {
  const groups: Group[] = [];
  for (const section of sections) {
    const last = groups.at(-1);
    if (section.plan && last?.plan === section.plan) last.sections.push(section);
    else groups.push({ key: section.key, plan: section.plan, sections: [section] });
  }
  return groups;
}
