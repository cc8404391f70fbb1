/** The items of a plan: queued, under way, over; and what a redirect made of them. */
import type { ItemRewritten, ItemStarted, PlanEnded, Planned } from "../../wire/events";
import type { Rec } from "../../wire/types";
import type { Draft } from "./draft";
import { settle } from "./presses";
import { between, type ItemStatus, type Section } from "./view";

export function planned(draft: Draft, event: Planned): void {
  const begun = event.started ?? 0;
  const made = event.items.map((item, index): Section => ({
    ...between(`${event.plan}/${item.id}`),
    plan: event.plan,
    item: item.id,
    number: index + 1,
    title: item.title,
    text: item.title,
    status: index < begun ? "done" : "queued",
  }));
  draft.sections().push(...made);
}

export function itemRewritten(draft: Draft, event: ItemRewritten, rec: Rec): void {
  const rewrite = { before: event.before, after: event.after };
  draft.section(find(draft, event.plan, event.item), (known) => ({
    text: event.after,
    rewrites: [...known.rewrites, rewrite],
  }));
  settle(draft, rec.seq - 1, rec.told.says); // the redirect that did it
}

export function itemStarted(draft: Draft, event: ItemStarted, rec: Rec): void {
  closeItem(draft, event.plan, "done", rec);
  const index = find(draft, event.plan, event.item);
  if (index < 0) return;
  draft.section(index, () => ({ text: event.text, status: "running", from: rec.at_ms }));
  draft.view.current = index;
}

export function planEnded(draft: Draft, event: PlanEnded, rec: Rec): void {
  closeItem(draft, event.plan, "done", rec);
  draft.sections().push(between(`after-${rec.seq}`));
  draft.view.current = draft.view.sections.length - 1;
}

/** The run is over: so is what was under way. What had not begun stays as it is. */
export function closeAll(draft: Draft, status: ItemStatus, rec: Rec): void {
  closeItem(draft, null, status, rec);
}

function closeItem(draft: Draft, plan: string | null, status: ItemStatus, rec: Rec): void {
  draft.view.sections.forEach((section, index) => {
    if (!section.plan || section.status !== "running" || (plan !== null && section.plan !== plan)) return;
    draft.section(index, () => ({ status, to: rec.at_ms }));
  });
}

function find(draft: Draft, plan: string, item: string): number {
  return draft.view.sections.findIndex((one) => one.plan === plan && one.item === item);
}
