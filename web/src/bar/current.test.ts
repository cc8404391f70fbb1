import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Ack, Panel } from "../wire/types";
import { Current, type Origin } from "./current";
import type { BarEvents } from "./model";
import { button, panelOf } from "./panel.sample";

const APPLIED: Ack = { verdict: "applied", seq: 42, state: "pausing" };

interface Asked {
  at: string;
  verb: string;
  answer: (value: unknown) => void;
  refuse: (error: Error) => void;
}

function bar() {
  const asked: Asked[] = [];
  const told: [keyof BarEvents, unknown][] = [];
  const followed: string[] = [];
  const client = ({ base }: Origin): never => {
    const ask = (run: string, verb: string): Promise<unknown> =>
      new Promise((answer, refuse) => asked.push({ at: base + run, verb, answer, refuse }));
    return { command: ask, begin: ask, receipt: (run: string) => ask(run, "receipt") } as never;
  };
  const current = new Current({
    client,
    now: () => Date.now(),
    changed: () => undefined,
    emit: (kind, detail) => told.push([kind, detail]) > 0,
    follow: (run) => followed.push(run),
  });
  const given = (more: Partial<Panel>, base = "/one/", token = ""): void => {
    const panel = panelOf(more);
    current.show({ base, token, run: panel.run }).accept(panel);
  };
  const presses = (): string[] => asked.map(({ at, verb }) => `${verb} ${at}`);
  return { current, given, asked, presses, told, followed };
}

const goOn = (current: Current): void => {
  current.model.press("end-continue");
  current.model.write("go on");
  void current.model.sendContinue();
};

const moment = (): Promise<unknown> => vi.advanceTimersByTimeAsync(500);

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("another run begins with nothing of the one before", () => {
  const { current, given } = bar();
  given({ run: "a" });
  current.model.press("redirect");
  current.model.write("EU only");
  current.model.choose("wrong path");
  given({ run: "b", seq: 1 });
  const { open, draft, reason, notice, isReceiptOpen } = current.model;
  expect([open, draft, reason, notice, isReceiptOpen]).toEqual(["", "", "", "", false]);
});

test("a run can be cancelled while the cancel of the one before is under way", async () => {
  const { current, given, presses } = bar();
  given({ run: "a" });
  current.model.press("cancel");
  given({ run: "b" });
  await moment();
  current.model.press("cancel");
  expect(presses()).toEqual(["cancel /one/a", "cancel /one/b"]);
});

test("no button of another run takes a press in the moment in which it came under the finger", async () => {
  const { current, given, presses } = bar();
  given({ run: "a" });
  await moment();
  current.show({ base: "/one/", token: "", run: "b" }); // nothing is known of it yet
  given({ run: "c" });
  current.model.press("cancel");
  expect(presses()).toEqual([]);
  await moment();
  current.model.press("cancel");
  expect(presses()).toEqual(["cancel /one/c"]);
});

test("an ack that comes late leaves alone what was written for another run, and is told to the page", async () => {
  const { current, given, asked, told } = bar();
  given({ run: "a" });
  current.model.press("redirect");
  current.model.write("for a");
  void current.model.sendRedirect();
  given({ run: "b" });
  await moment();
  current.model.press("redirect");
  current.model.write("for b");
  asked[0]?.answer(APPLIED);
  await moment();
  expect([current.model.open, current.model.draft]).toEqual(["redirect", "for b"]);
  expect(told).toEqual([["ack", { run: "a", verb: "redirect", ack: APPLIED }]]);
});

test("a refusal that comes late is not said under another run", async () => {
  const { current, given, asked, told } = bar();
  given({ run: "a" });
  current.model.press("cancel");
  given({ run: "b" });
  asked[0]?.refuse(new Error("It was cancelled already."));
  await moment();
  expect(current.model.notice).toBe("");
  expect(told).toEqual([["problem", { run: "a", verb: "cancel", detail: "It was cancelled already." }]]);
});

test("a run that goes on from the one that is shown is followed; from one that no longer is, not", async () => {
  const { current, given, asked, told, followed } = bar();
  const ended = { ended: true, buttons: [button("continue")] };
  given({ run: "a", ...ended });
  goOn(current);
  given({ run: "b", ...ended });
  asked[0]?.answer("a2");
  await moment();
  expect(followed).toEqual([]);
  goOn(current);
  asked[1]?.answer("b2");
  await moment();
  expect(followed).toEqual(["b2"]);
  expect(told.map(([, detail]) => detail)).toEqual([
    { run: "a2", from: "a" },
    { run: "b2", from: "b" },
  ]);
});

test("the same id at another server, or for another token, is another run: its lower seq is not an older panel", async () => {
  const { current, given, presses } = bar();
  given({ seq: 90 });
  given({ seq: 5, agent: "elsewhere" }, "/two/");
  expect(current.model.panel).toMatchObject({ seq: 5, agent: "elsewhere" });
  current.show({ base: "/two/", token: "of bo", run: "r1" });
  expect(current.model.panel).toBeNull();
  given({ seq: 4 }, "/two/", "of bo");
  await moment();
  current.model.press("cancel");
  expect(presses()).toEqual(["cancel /two/r1"]);
});

test("what is shown already keeps its model", () => {
  const { current, given } = bar();
  given({ seq: 41 });
  current.model.write("EU only");
  given({ seq: 42 });
  expect([current.model.draft, current.model.panel?.seq]).toEqual(["EU only", 42]);
});
