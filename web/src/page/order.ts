/** The order of the runs: those that need a person first, then the newest. */
import type { Panel } from "../wire/types";
import type { Row } from "./store";

export function needsSomebody(panel: Panel): boolean {
  return panel.wants > 0 || panel.attention > 0 || panel.raise.length > 0;
}

export function inOrder(rows: ReadonlyMap<string, Row>): Row[] {
  return [...rows.values()].sort(
    (a, b) =>
      Number(needsSomebody(b.panel)) - Number(needsSomebody(a.panel)) ||
      b.panel.created_at_ms - a.panel.created_at_ms ||
      (a.panel.run < b.panel.run ? 1 : -1),
  );
}
