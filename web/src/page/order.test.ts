import { expect, test } from "vitest";
import type { Panel } from "../wire/types";
import { inOrder } from "./order";
import type { Row } from "./store";

function row(run: string, created_at_ms: number, more: Partial<Panel> = {}): [string, Row] {
  const panel = { run, created_at_ms, wants: 0, attention: 0, raise: [], ...more } as unknown as Panel;
  return [run, { panel, at: 0 }];
}

test("those that need a person come first, then the newest", () => {
  const rows = new Map([
    row("old", 1),
    row("asks", 2, { wants: 1 }),
    row("new", 9),
    row("look", 3, { attention: 1 }),
    row("limit", 4, { raise: [{ cap: "usd", used: 2, of: 2, suggest: 4, says: "" }] }),
  ]);
  expect(inOrder(rows).map(({ panel }) => panel.run)).toEqual(["limit", "look", "asks", "new", "old"]);
});
