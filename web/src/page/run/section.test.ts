import { expect, test } from "vitest";
import { panelOf } from "../../bar/panel.sample";
import { empty, type Section, type View } from "../view/view";
import { stateOf } from "./section";

test.each([
  ["running", "running"],
  ["pausing", "running"],
  ["paused", "held"],
  ["waiting", "waiting"],
] as const)("the item under way of a run that is %s is %s", (state, item) => {
  const view: View = { ...empty("r1"), panel: panelOf({ state }) };
  const section = { status: "running", undone: 0, effects: 0 } as Section;
  expect(stateOf(section, view)).toBe(item);
  expect(stateOf({ ...section, status: "done" }, view)).toBe("done");
});
