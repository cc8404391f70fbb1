import { expect, test } from "vitest";
import { button, panelOf } from "../../bar/panel.sample";
import type { Engaged, KillSwitch, Panel } from "../../wire/types";
import { held } from "./holds";

const paused = panelOf({ state: "paused", buttons: [button("resume", { strong: true }), button("cancel")] });

function engaged(scope: Engaged["scope"], name = ""): KillSwitch {
  return { engaged: [{ scope, name, by: "ana", reason: "", at_ms: 0 }], held: [], recorded: true, not_stopped: [] };
}

function off(panel: Panel): string[] {
  return panel.buttons.map((one) => one.off);
}

test("what the kill switch holds cannot be resumed, and says who may change that", () => {
  expect(off(held(paused, engaged("all"), true))).toEqual([
    "the kill switch is engaged: release it first, at the top",
    "",
  ]);
  expect(off(held(paused, engaged("all"), false))[0]).toBe(
    "the kill switch is engaged: an admin has to release it first",
  );
  expect(held(paused, engaged("all"), true).buttons[0]?.strong).toBe(false);
});

test("only what it covers is held, and nothing after the release", () => {
  expect(off(held(paused, engaged("agent", "churn"), true))[0]).not.toBe("");
  expect(off(held(paused, engaged("thread", "t1"), true))[0]).not.toBe("");
  for (const now of [engaged("agent", "mail"), engaged("thread", "t2"), { ...engaged("all"), engaged: [] }, null])
    expect(held(paused, now, true)).toBe(paused);
});

test("after the end nothing new begins either", () => {
  const ended = panelOf({ ended: true, buttons: [button("fork"), button("continue"), button("undo")] });
  expect(off(held(ended, engaged("all"), true)).map(Boolean)).toEqual([true, true, false]);
});
