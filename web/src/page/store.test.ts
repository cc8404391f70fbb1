import { afterEach, beforeEach, expect, test, vi } from "vitest";
import type { Client } from "../wire/client";
import { Refused, Unanswered } from "../wire/refused";
import type { Inbox, KillSwitch, Panel } from "../wire/types";
import { Store } from "./store";
import type { Message } from "./view/reduce";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function panel(run: string, seq: number, state = "running"): Panel {
  return { run, seq, state, created_at_ms: 0, wants: 0, attention: 0, raise: [] } as unknown as Panel;
}

function record(seq: number): Message {
  const event = { type: "step_started", step: `s${seq}`, name: "s" } as const;
  return { event: "record", data: { seq, at_ms: seq, epoch: 1, event, told: { says: "" } } };
}

function store(client: Partial<Client> = {}): Store {
  const made = new Store(client as Client);
  made.me.value = { by: "ana", right: "admin", run: null, how: "session" };
  return made;
}

test("a history is shown at once, when it is read", () => {
  const page = store();
  page.putPanels([panel("a", 3)]);
  page.go("#/runs/a");
  page.take([record(1), record(2)]);
  expect(page.view.value?.steps.size).toBe(0);
  page.take([record(3)]);
  expect(page.view.value?.steps.size).toBe(3);
});

test("a history that does not come to its end is shown as far as it is", () => {
  const page = store();
  page.putPanels([panel("a", 9)]);
  page.go("#/runs/a");
  page.take([record(1)]);
  vi.advanceTimersByTime(1_500);
  expect(page.view.value?.steps.size).toBe(1);
});

test("an older panel never takes the place of a newer one", () => {
  const page = store();
  page.go("#/runs/a");
  page.putPanels([panel("a", 5, "paused")]);
  page.putPanels([panel("a", 4, "running")]);
  expect(page.panel.value?.state).toBe("paused");
  expect(page.rows.value.get("a")?.panel.state).toBe("paused");
});

test("no further character is shown from the moment a press is acknowledged", () => {
  const page = store();
  page.go("#/runs/a");
  const said = (offset: number, text: string): Message => ({
    event: "text",
    data: { part: "say-1", offset, text },
  });
  page.take([{ event: "panel", data: panel("a", 1) }, said(0, "seen")]);
  page.acknowledged("a", { verdict: "applied", seq: 2, state: "cancelling" });
  page.take([said(4, " not"), { event: "panel", data: panel("a", 2, "cancelling") }]);
  expect(page.view.value?.parts.get("say-1")?.limit).toBe(4);
});

const LATE = "that was read when the list already knew of the stop";

test.each([
  ["the press is acknowledged", (page: Store) => page.acknowledged("a", { verdict: "applied", seq: 2, state: "cancelling" })],
  ["the stop is told", (page: Store) => page.take([record(2), { event: "panel", data: panel("a", 2, "cancelling") }])],
])(`no character ${LATE} is shown when %s`, (_, stopped) => {
  const page = store();
  page.go("#/runs/a");
  const said = (offset: number, text: string): Message => ({
    event: "text",
    data: { part: "say-1", offset, text },
  });
  page.take([record(1), { event: "panel", data: panel("a", 1) }, said(0, "seen")]);
  page.putPanels([panel("a", 2, "cancelling")]);
  page.take([said(4, " not")]);
  expect(page.view.value?.parts.get("say-1")?.text).toBe("seen");
  stopped(page);
  expect(page.view.value?.parts.get("say-1")?.limit).toBe(4);
});

test("whoever comes by a link for one run sees that run, whatever the URL says", () => {
  const page = store();
  page.me.value = { by: "link", right: "view", run: "only", how: "link" };
  page.go("#/inbox");
  expect(page.route.value).toEqual({ at: "run", run: "only" });
  expect(page.may("control")).toBe(false);
});

test("that something waits is said when there is more of it, not when it is settled", async () => {
  const card = { run: "a" } as Inbox["cards"][number];
  const inbox = vi.fn<() => Promise<Inbox>>();
  inbox.mockResolvedValueOnce({ cards: [card], questions: [], attention: [] });
  inbox.mockResolvedValueOnce({ cards: [], questions: [], attention: [] });
  const page = store({ inbox });
  await page.loadInbox();
  expect(page.announced.value).toBe("1 thing to answer or look at.");
  page.announced.value = "";
  await page.loadInbox();
  expect(page.announced.value).toBe("");
});

const STOPPED: KillSwitch = {
  engaged: [{ scope: "all", name: "", by: "ana", reason: "leak", at_ms: 1 }],
  held: ["a"],
  recorded: true,
  not_stopped: [],
};

test("that everything is stopped is known to all; only an admin of all runs may change it", async () => {
  const page = store({ killSwitch: () => Promise.resolve(STOPPED) });
  page.me.value = { by: "ana", right: "approve", run: null, how: "session" };
  await page.loadSwitch();
  expect([page.isStopped.value, page.mayStopAll.value]).toEqual([true, false]);
  page.me.value = { by: "ana", right: "admin", run: null, how: "session" };
  expect(page.mayStopAll.value).toBe(true);
  page.me.value = { by: "bo", right: "admin", run: "a", how: "token" };
  expect(page.mayStopAll.value).toBe(false);
});

test("a server without a kill switch, or that does not tell, shows none", async () => {
  const no = new Refused({ type: "", title: "", status: 404, detail: "", code: "not_there" });
  const page = store({ killSwitch: () => Promise.reject(no) });
  page.me.value = { by: "ana", right: "admin", run: null, how: "session" };
  await page.loadSwitch();
  expect([page.isStopped.value, page.mayStopAll.value]).toEqual([false, false]);
});

test("a server that does not answer changes nothing of what is known", async () => {
  const killSwitch = vi.fn<() => Promise<KillSwitch>>();
  killSwitch.mockResolvedValueOnce(STOPPED).mockRejectedValueOnce(new Unanswered("away"));
  const page = store({ killSwitch });
  await page.loadSwitch();
  await expect(page.loadSwitch()).rejects.toThrow(Unanswered);
  expect(page.isStopped.value).toBe(true);
});

test("what could not be stopped stays named for as long as it is engaged", () => {
  const page = store();
  const left = [{ what: "thread tool", why: "it cannot be killed" }];
  page.putSwitch({ ...STOPPED, not_stopped: left });
  page.putSwitch(STOPPED);
  expect(page.killSwitch.value?.not_stopped).toEqual(left);
  page.putSwitch({ ...STOPPED, engaged: [] });
  expect(page.killSwitch.value?.not_stopped).toEqual([]);
});

test("an answer about the inbox that comes late does not undo a later one", async () => {
  const card = { run: "a" } as Inbox["cards"][number];
  const answers: ((inbox: Inbox) => void)[] = [];
  const page = store({ inbox: () => new Promise((answer) => answers.push(answer)) });
  const both = [page.loadInbox(), page.loadInbox()];
  answers[1]?.({ cards: [card], questions: [], attention: [] });
  answers[0]?.({ cards: [], questions: [], attention: [] });
  await Promise.all(both);
  expect(page.inbox.value.cards).toEqual([card]);
});
