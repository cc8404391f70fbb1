/** Real logs of real runs, and what is to be shown of them. */
import { expect, test } from "vitest";
import type { JournalEvent } from "../../wire/events";
import type { Panel, RunState, Told } from "../../wire/types";
import churn from "./logs/churn.json";
import drafts from "./logs/drafts.json";
import writer from "./logs/writer.json";
import { reduce, reduceAll, showRest, type Message } from "./reduce";
import { heldIn } from "./pace";
import { empty, type Section, type View } from "./view";

const LOGS = { churn, drafts, writer } as unknown as Record<string, Message[]>;

function shown(log: string): View {
  return reduceAll(empty("r"), LOGS[log] ?? []);
}

let seq = 0;
function record(event: JournalEvent, told: Partial<Told> = {}): Message {
  seq += 1;
  return { event: "record", data: { seq, at_ms: seq, epoch: 1, event, told: { says: event.type, ...told } } };
}

function text(part: string, offset: number, said: string): Message {
  return { event: "text", data: { part, offset, text: said } };
}

function panel(state: RunState, seq = 0): Message {
  return { event: "panel", data: { run: "r", state, seq } as Panel };
}

function items(view: View): Section[] {
  return view.sections.filter((section) => section.plan);
}

test.each(Object.keys(LOGS))("%s: one at a time gives the same as all at once", (name) => {
  const log = LOGS[name] ?? [];
  expect(log.reduce(reduce, empty("r"))).toEqual(shown(name));
});

test.each(Object.keys(LOGS))("%s: a view that was handed out never changes", (name) => {
  let view = empty("r");
  for (const message of LOGS[name] ?? []) {
    const before = structuredClone(view);
    const after = reduce(view, message);
    expect(view).toEqual(before);
    view = after;
  }
});

test("a plan is shown with the item that was rewritten, before and after", () => {
  const view = shown("churn");
  expect(items(view).map((item) => [item.number, item.status, item.text])).toEqual([
    [1, "done", "fetch customers"],
    [2, "done", "score EU customers only"],
    [3, "done", "write memo"],
  ]);
  expect(items(view)[1]?.rewrites).toEqual([
    { before: "score churn risk", after: "score EU customers only" },
  ]);
  expect([...view.told.values()]).toMatchObject([
    { by: "ana", text: "score EU customers only", says: "rewrites the next item", isOpen: false },
  ]);
  expect(view.end?.state).toBe("completed");
});

test("who pressed what is shown with how long it took", () => {
  const [paused, resumed] = [...shown("churn").notes.values()].filter((note) => note.weight === "press");
  expect(paused).toMatchObject({ by: "ana", sign: "‖", says: "paused it", reason: "all of them?" });
  expect(paused?.took).toBeGreaterThan(0);
  expect(resumed).toMatchObject({ by: "ana", sign: "▶" });
});

test("the time is working, paused, waiting or queued, without a gap", () => {
  const { stretches } = shown("churn");
  expect(stretches.map((stretch) => stretch.pace)).toEqual([
    "queued",
    "working",
    "pausing",
    "paused",
    "queued",
    "working",
  ]);
  stretches.slice(1).forEach((stretch, index) => expect(stretch.from).toBe(stretches[index]?.to));
  expect(shown("drafts").stretches.map((stretch) => stretch.pace)).toContain("waiting");
});

test("tools are shown with their effect, what stopped them, their output and what was undone", () => {
  const steps = [...shown("drafts").steps.values()];
  expect(steps.map((step) => [step.name, step.sign, step.says, step.undoable])).toEqual([
    ["draft", "↶", "undone", true],
    ["draft", "↶", "undone", true],
    ["send", "✓", "sent to ana", false],
    ["crunch", "■", "interrupted: its processes were told to end", false],
  ]);
  const crunch = steps[3];
  expect(crunch?.policy).toEqual(["acts once", "has no undo", "own process, can be killed"]);
  expect(crunch).toMatchObject({ args: { seconds: 3600 } });
  expect(crunch?.output).toEqual(["out-crunch-a75e4ef47e-1"]);
});

test("an approval is shown with its verdict", () => {
  expect([...shown("drafts").questions.values()]).toMatchObject([
    { kind: "approval", status: "answered", answer: { sign: "✓", by: "ana", says: "approved send" } },
  ]);
});

test("text that a redirect has cut is kept and marked", () => {
  const view = shown("writer");
  expect([...view.parts.values()].map((part) => [part.state, part.text])).toEqual([
    ["whole", "I look it up."],
    ["cut", "In May we won 120 customers, mostly in"],
    ["whole", "In May the EU lost 2 customers."],
  ]);
  expect(view.steps.get("model-2")).toMatchObject({ status: "interrupted" });
  expect(view.steps.get("model-2")?.bills[0]).toMatch(/^about .* tokens in, .* out, price unknown$/);
});

test("text is counted in code points, and said again after a reconnection only once", () => {
  const view = reduceAll(empty("r"), [
    text("say-1", 0, "a𝄞b"),
    text("say-1", 0, "a𝄞b"),
    text("say-1", 2, "bcd"),
  ]);
  expect(view.parts.get("say-1")?.text).toBe("a𝄞bcd");
});

test("thoughts are told from words, and a tool's output from both", () => {
  const view = reduceAll(empty("r"), [
    record({ type: "step_started", step: "s", name: "s", tool: "s" }),
    text("think-model-1-1-0", 0, "hm"),
    text("say-model-1-1-1", 0, "so"),
    text("out-s-1", 0, "log"),
  ]);
  expect([...view.parts.values()].map((part) => part.kind)).toEqual(["thought", "said", "output"]);
  expect(view.steps.get("s")?.output).toEqual(["out-s-1"]);
});

test("text that came in the same frame as the stop is not shown, nor what comes after it", () => {
  const before = reduceAll(empty("r"), [panel("running"), text("say-1", 0, "seen")]);
  const held = reduceAll(before, [text("say-1", 4, " not"), panel("pausing"), text("say-1", 8, " seen")]);
  expect(held.parts.get("say-1")).toMatchObject({ limit: 4 });
  const resumed = reduceAll(held, [panel("paused"), panel("queued")]);
  expect(resumed.parts.get("say-1")).toMatchObject({ limit: null, text: "seen not seen" });
});

test("a panel that was on its way when somebody pressed does not let text go on", () => {
  const before = reduceAll(empty("r"), [panel("running", 5), text("say-1", 0, "seen")]);
  const late = reduceAll(before, [panel("pausing", 7), text("say-1", 4, " not"), panel("running", 6)]);
  expect(late.parts.get("say-1")).toMatchObject({ limit: 4 });
  expect(late.panel?.state).toBe("pausing");
});

test("what was cut by a stop is shown beyond it only to who asks", () => {
  let view = reduceAll(empty("r"), [panel("running"), text("say-1", 0, "seen")]);
  view = reduceAll(view, [
    text("say-1", 4, " more"),
    panel("cancelling"),
    record({ type: "text_ended", part: "say-1", text: "seen more", complete: false }),
    panel("cancelled"),
  ]);
  expect(view.parts.get("say-1")).toMatchObject({ state: "cut", limit: 4, text: "seen more" });
  expect(showRest(view, "say-1").parts.get("say-1")?.limit).toBeNull();
});

test("a run that was stopped before somebody looked is shown whole", () => {
  const view = reduceAll(empty("r"), [text("say-1", 0, "all of it"), panel("paused")]);
  expect(view.parts.get("say-1")?.limit).toBeNull();
});

test("a second attempt is one step with two attempts", () => {
  const view = reduceAll(empty("r"), [
    record({ type: "step_started", step: "s", name: "fetch" }),
    record({ type: "step_failed", step: "s", error: "timeout", happened: "maybe" }),
    record({ type: "step_started", step: "s", name: "fetch", attempt: 2 }),
    record({ type: "step_finished", step: "s", result: 7 }),
  ]);
  const step = view.steps.get("s");
  expect(step).toMatchObject({ status: "done", result: 7 });
  expect(step?.attempts.map((attempt) => attempt.says)).toEqual(["step_failed", "step_finished"]);
  expect(step?.attempts[0]?.trouble).toBe("timeout");
  expect(view.sections[0]?.entries).toHaveLength(1);
});

test("a cancel interrupts the item under way and leaves the others not begun", () => {
  const plan = [
    { id: "a", title: "one" },
    { id: "b", title: "two" },
  ];
  const view = reduceAll(empty("r"), [
    record({ type: "planned", plan: "p", items: plan }),
    record({ type: "item_started", plan: "p", item: "a", text: "one" }),
    record({ type: "redirected", by: "bo", instruction: "faster" }),
    record({ type: "cancel_requested", by: "bo" }),
    record({ type: "cancelled" }, { open: "never delivered" }),
  ]);
  expect(items(view).map((item) => item.status)).toEqual(["interrupted", "queued"]);
  expect([...view.told.values()][0]?.says).toBe("never delivered");
});

test("attention items stay until somebody has dealt with them", () => {
  const raised = reduce(empty("r"), record({ type: "attention_raised", item: "i", text: "look" }));
  expect([...raised.attention]).toEqual([["i", "look"]]);
  const settled = reduce(raised, record({ type: "attention_settled", item: "i", by: "ana" }));
  expect(settled.attention.size).toBe(0);
});

test("an event of a later build is passed over", () => {
  const unknown = record({ type: "never_seen" } as unknown as JournalEvent);
  expect(reduce(empty("r"), unknown).sections[0]?.entries).toEqual([]);
});

test("10,000 events, a hundred at a time, stay responsive", () => {
  let view = empty("r");
  const began = performance.now();
  for (let frame = 0; frame < 100; frame++) {
    const batch: Message[] = [];
    for (let n = 0; n < 50; n++) {
      batch.push(record({ type: "step_started", step: `s${frame}-${n}`, name: "s", tool: "s" }));
      batch.push(record({ type: "step_finished", step: `s${frame}-${n}`, result: n }));
    }
    view = reduceAll(view, batch);
  }
  expect(view.steps.size).toBe(5000);
  expect(performance.now() - began).toBeLessThan(5000); // growth by the square would take minutes
});

function lines(view: View): string[] {
  return view.sections.flatMap((section) => section.entries.map((entry) => `${entry.kind} ${entry.id}`));
}

test.each(["cancel_requested", "pause_requested"] as const)(
  "what a stop has cut stands before the stop, whether it was seen to come or read afterwards (%s)",
  (type) => {
    seq = 0;
    const pressed = record({ type, by: "ana" } as JournalEvent, { tone: "press" });
    const cut = record({ type: "text_ended", part: "say-1", text: "Half", complete: false });
    const order = ["text say-1", "note 1"];
    expect(lines(reduceAll(empty("r"), [text("say-1", 0, "Half"), pressed, cut]))).toEqual(order);
    expect(lines(reduceAll(empty("r"), [pressed, cut]))).toEqual(order);
  },
);

test("text that comes after a stop is over stands after it", () => {
  seq = 0;
  const pressed = record({ type: "pause_requested", by: "ana" } as JournalEvent, { tone: "press" });
  const held = record({ type: "paused" } as JournalEvent);
  const view = reduceAll(empty("r"), [pressed, held, text("say-2", 0, "On")]);
  expect(lines(view)).toEqual(["note 1", "text say-2"]);
});

test("what may not be shown any more is let go of, and the run is told anew", () => {
  seq = 0;
  const pressed = record({ type: "pause_requested", by: "ana" } as JournalEvent, { tone: "press" });
  const said = [pressed, text("say-1", 0, "secret")];
  const anew = { event: "anew", data: {} } as const;
  const view = reduceAll(reduceAll(empty("r"), said), [anew]);
  expect(JSON.stringify([...view.parts.values()])).not.toContain("secret");
  expect(lines(reduceAll(view, [pressed]))).toEqual(["note 1"]);
  expect(lines(reduceAll(empty("r"), [...said, anew, pressed]))).toEqual(["note 1"]);
});

test("what its limits wait for is known until somebody has said it", () => {
  const limits = {
    condition: {
      is: "any_of",
      of: [
        { is: "external", name: "the deploy" },
        { is: "not", of: { is: "external", name: "the all-clear" } },
        { is: "max_steps", steps: 3 },
      ],
    },
  };
  const born = record({ type: "created", agent: "a", thread: "t", limits } as unknown as JournalEvent);
  const view = reduceAll(empty("r"), [born]);
  expect(view.signals).toEqual(["the deploy", "the all-clear"]);
  const told = record({ type: "signalled", by: "ana", name: "the deploy" } as JournalEvent);
  expect(reduce(view, told).signals).toEqual(["the all-clear"]);
});

test("a step that is frozen is said to be, until the run goes on", () => {
  seq = 0;
  const frozen = reduceAll(empty("r"), [
    record({ type: "step_started", step: "s", name: "crunch" }, { says: "under way" }),
    record({ type: "step_started", step: "t", name: "look" }, { says: "under way" }),
    record({ type: "step_finished", step: "t" }, { says: "done" }),
    record({ type: "paused" } as JournalEvent, { open: "frozen" }),
  ]);
  expect([...frozen.steps.values()].map((step) => step.says)).toEqual(["frozen", "done"]);
  const resumed = reduce(frozen, record({ type: "resumed", by: "ana" }, { open: "under way" }));
  expect(resumed.steps.get("s")?.says).toBe("under way");
});

test("the time for which a step was frozen does not count", () => {
  const stretches = [
    { pace: "working", from: 0, to: 100 },
    { pace: "paused", from: 100, to: 600 },
    { pace: "working", from: 600, to: 700 },
    { pace: "paused", from: 700, to: 0 },
  ] as const;
  expect(heldIn(stretches, 50, 650)).toEqual({ ms: 500, since: 0 });
  expect(heldIn(stretches, 50, Infinity)).toEqual({ ms: 500, since: 700 });
  expect(heldIn(stretches, 610, 690)).toEqual({ ms: 0, since: 0 });
});
