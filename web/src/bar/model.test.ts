import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Refused, Unanswered } from "../wire/refused";
import type { Ack, Panel } from "../wire/types";
import { type BarEvents, BarModel, OTHER } from "./model";
import { button, panelOf } from "./panel.sample";

type Asked = [run: string, verb: string, body: Record<string, unknown>];

const APPLIED: Ack = { verdict: "applied", seq: 42, state: "pausing" };

function bar(answer: () => Promise<unknown> = () => Promise.resolve(APPLIED)) {
  const asked: Asked[] = [];
  const told: [keyof BarEvents, unknown][] = [];
  const ask = (run: string, verb: string, body: Record<string, unknown>): Promise<unknown> => {
    asked.push([run, verb, body]);
    return answer();
  };
  const client = { base: new URL("http://host/agents/"), command: ask, begin: ask, receipt: () => answer() };
  const model = new BarModel({
    client: () => client as never,
    now: () => Date.now(),
    changed: () => undefined,
    emit: (kind, detail) => told.push([kind, detail]) > 0,
  });
  const given = (more: Partial<Panel> = {}): void => model.accept(panelOf(more));
  given();
  return { model, asked, told, given };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("a stop is never stale: pause and cancel do not say what was seen", () => {
  const { model, asked } = bar();
  model.press("go");
  model.press("cancel");
  expect(asked).toEqual([
    ["r1", "pause", {}],
    ["r1", "cancel", {}],
  ]);
});

test("resume, redirect and raise say what was seen", async () => {
  const { model, asked, given } = bar();
  given({ buttons: [button("resume"), button("redirect"), button("raise")], raise: [{ cap: "usd", used: 2, of: 2, suggest: 4, says: "" }] });
  await vi.advanceTimersByTimeAsync(500);
  model.press("go");
  model.write(" EU only ");
  await model.sendRedirect();
  model.press("extra-raise");
  await model.sendRaise();
  expect(asked).toEqual([
    ["r1", "resume", { seen_seq: 41 }],
    ["r1", "redirect", { instruction: "EU only", seen_seq: 41 }],
    ["r1", "raise", { caps: { usd: 4 }, seen_seq: 41 }],
  ]);
});

test("a reason rides on the next press, once, and a resume drops it", async () => {
  const { model, asked, given } = bar();
  model.choose("wrong path");
  model.press("go");
  await vi.advanceTimersByTimeAsync(0);
  model.press("go");
  model.choose(OTHER);
  model.writeReason(" the join ");
  model.press("cancel");
  expect(asked.map(([, , body]) => body["reason"])).toEqual(["wrong path", undefined, "the join"]);
  given({ seq: 42, buttons: [button("resume")] });
  await vi.advanceTimersByTimeAsync(500);
  model.choose("looks unsafe");
  model.press("go");
  expect(asked.at(-1)).toEqual(["r1", "resume", { seen_seq: 42 }]);
  expect(model.reason).toBe("");
  await vi.advanceTimersByTimeAsync(0);
  given({ seq: 43 });
  model.press("cancel");
  expect(asked.at(-1)).toEqual(["r1", "cancel", {}]);
});

test("the same reason again takes it back", () => {
  const { model } = bar();
  model.choose("wrong path");
  model.choose("wrong path");
  expect(model.reason).toBe("");
});

test("a button that has just become another takes no press for a moment", async () => {
  const { model, asked, given } = bar();
  model.press("cancel");
  await vi.advanceTimersByTimeAsync(0);
  given({ seq: 42, state: "cancelling", buttons: [button("cancel", { label: "Stop now", body: { now: true } })] });
  model.press("cancel"); // the second half of a double click
  expect(asked).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(500);
  model.press("cancel");
  expect(asked.at(-1)).toEqual(["r1", "cancel", { now: true }]);
});

test("a press too many on a run that has ended starts nothing", () => {
  const { model, asked, given } = bar();
  given({ seq: 50, ended: true, state: "failed", buttons: [button("fork"), button("continue")] });
  model.press("go");
  model.press("cancel");
  expect(asked).toEqual([]);
});

test("a button of a run that has just ended takes no press for a moment", async () => {
  const { model, asked, given } = bar();
  model.press("cancel");
  await vi.advanceTimersByTimeAsync(0);
  given({ seq: 50, ended: true, state: "cancelled", buttons: [button("undo"), button("fork")] });
  model.press("end-undo"); // the second half of a double click on Cancel, where Undo stands now
  model.press("end-fork");
  expect(asked).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(500);
  model.press("end-undo");
  expect(asked.at(-1)).toEqual(["r1", "undo", {}]);
});

test("it shows at once that it was pressed, and the same press is not sent twice", async () => {
  const { model, asked, told } = bar();
  model.press("go");
  model.press("go");
  expect(model.isBusy("pause")).toBe(true);
  await vi.advanceTimersByTimeAsync(0);
  expect(model.isBusy("pause")).toBe(false);
  expect(asked).toHaveLength(1);
  expect(told).toEqual([["ack", { run: "r1", verb: "pause", ack: APPLIED }]]);
});

test("a press that came too late is said in the server's words", async () => {
  const ack: Ack = { verdict: "too_late", seq: 44, state: "completed", message: "Too late: it had completed." };
  const problem = { type: "", title: "", status: 409, detail: "longer", code: "too_late", ack };
  const { model, told } = bar(() => Promise.reject(new Refused(problem)));
  model.press("go");
  await vi.advanceTimersByTimeAsync(0);
  expect(model.notice).toBe("Too late: it had completed.");
  expect(told).toEqual([["problem", { run: "r1", verb: "pause", detail: "Too late: it had completed.", ack }]]);
});

test("an instruction that was not taken stays in its field", async () => {
  const { model } = bar(() => Promise.reject(new Unanswered(null)));
  model.press("redirect");
  model.write("EU only");
  await model.sendRedirect();
  expect([model.open, model.draft, model.notice]).toEqual(["redirect", "EU only", "The server does not answer."]);
});

test("a resume takes along what was written and not yet sent", async () => {
  const { model, asked, given } = bar();
  given({ state: "paused", buttons: [button("resume"), button("redirect"), button("cancel")] });
  await vi.advanceTimersByTimeAsync(500);
  model.press("redirect");
  model.write("EU only");
  model.press("go");
  await vi.advanceTimersByTimeAsync(0);
  expect(asked).toEqual([["r1", "resume", { instruction: "EU only", seen_seq: 41 }]]);
  expect([model.open, model.draft]).toEqual(["", ""]);
});

test("a button that cannot act says why, and asks nothing", () => {
  const { model, asked, given } = bar();
  given({ buttons: [button("pause", { off: "a limit is ending it" })] });
  model.press("go");
  expect(model.notice).toBe("a limit is ending it");
  expect(asked).toEqual([]);
});

test("an older panel that comes late is not shown", () => {
  const { model, given } = bar();
  given({ seq: 50, state: "paused" });
  given({ seq: 49, state: "pausing" });
  expect(model.panel?.state).toBe("paused");
});

test("the hold is counted down from when the panel came", async () => {
  const { model, given } = bar();
  given({ state: "pausing", hold_left_ms: 7_000 });
  await vi.advanceTimersByTimeAsync(2_000);
  expect(model.holdLeftMs).toBe(5_000);
  await vi.advanceTimersByTimeAsync(9_000);
  expect(model.holdLeftMs).toBe(0);
});

test("continue sends nothing before somebody has written what comes next, and opens the run that it made", async () => {
  const { model, asked, told, given } = bar(() => Promise.resolve("r2"));
  given({ seq: 50, ended: true, state: "completed", buttons: [button("continue")] });
  await vi.advanceTimersByTimeAsync(500);
  model.press("end-continue");
  await model.sendContinue();
  model.write("   ");
  await model.sendContinue();
  expect([model.open, asked]).toEqual(["continue", []]);
  model.write("now for June ");
  await model.sendContinue();
  expect(asked).toHaveLength(1);
  expect(JSON.stringify(asked)).toContain('{"input":"now for June"}');
  expect([model.open, model.draft]).toEqual(["", ""]);
  expect(told).toEqual([["open", { run: "r2", from: "r1" }]]);
});

test("who may only watch is told so by every button, and nothing is asked", () => {
  const { model, asked, given } = bar();
  model.introduce("cleo", "view");
  given({ buttons: [button("pause"), button("redirect"), button("cancel")] });
  model.press("cancel");
  expect(model.notice).toBe("you may watch it, not stop it");
  expect(asked).toEqual([]);
});

test("who may stop a run may not let it use more", () => {
  const { model, given } = bar();
  model.introduce("bo", "control");
  given({ buttons: [button("raise"), button("cancel")] });
  expect(model.buttons.get("extra-raise")?.off).toBe("you may stop it, not let it use more");
  expect(model.buttons.get("cancel")?.off).toBe("");
});

test("money is proposed as money", () => {
  const { model, given } = bar();
  given({ buttons: [button("raise")], raise: [{ cap: "usd", used: 0.07, of: 0.05, suggest: 0.1, says: "" }] });
  model.press("extra-raise");
  expect(model.caps).toEqual({ usd: "0.10" });
});

test("a refusal sends nobody to a terminal for what the page has a button for", async () => {
  const said =
    "Cannot resume run r1: the kill switch is engaged (by bo: drill). Nothing was changed. " +
    "Somebody has to release it first: pullcord kill-switch release";
  const ack: Ack = { verdict: "rejected", seq: 41, state: "paused", reason: "kill_switch", message: said };
  const problem = { type: "", title: "Not done", status: 409, code: "kill_switch", detail: said, ack };
  const { model } = bar(() => Promise.reject(new Refused(problem)));
  model.press("go");
  await vi.advanceTimersByTimeAsync(0);
  expect(model.notice).toBe(
    "Cannot resume run r1: the kill switch is engaged (by bo: drill). Nothing was changed. Release it first; that is for admins.",
  );
});
