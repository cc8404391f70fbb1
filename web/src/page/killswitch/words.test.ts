import { expect, test } from "vitest";
import type { Engaged, KillSwitch } from "../../wire/types";
import { consequence, heldInWords, RELEASE, whatIsStopped } from "./words";

const all: Engaged = { scope: "all", name: "", by: "ana", reason: "leak", at_ms: 0 };

test.each([
  [null, "All runs are held where they are."],
  [0, "No run is under way."],
  [1, "The one run that is under way is held where it is."],
  [1204, "All 1,204 runs are held where they are."],
])("what a press will do is said before it, with %s runs under way", (living, says) => {
  expect(consequence(living)).toBe(`${says} Tools are killed. Nothing starts until somebody releases it.`);
});

test("what is stopped is named, and text of others in it cannot act", () => {
  expect(whatIsStopped(all)).toBe("Everything is stopped");
  expect(whatIsStopped({ ...all, scope: "agent", name: "mail\u202e" })).toBe("Agent mail⟨U+202E⟩ is stopped");
  expect(whatIsStopped({ ...all, scope: "thread", name: "q3" })).toBe("Thread q3 is stopped");
});

test("how many runs are held is said, also if none is", () => {
  const held = (...runs: string[]): KillSwitch => ({ engaged: [all], held: runs, recorded: true, not_stopped: [] });
  expect([held(), held("a"), held("a", "b")].map(heldInWords)).toEqual([
    "No run is held.",
    "1 run is held.",
    "2 runs are held.",
  ]);
});

test("nobody takes a release for a resume", () => {
  expect(RELEASE).toContain("resumes nothing");
});
