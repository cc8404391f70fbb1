/** Keeps the store true for as long as somebody looks: one connection, for the list and the run together. */
import { effect } from "@preact/signals";
import { Refused } from "../wire/refused";
import { follow } from "../wire/stream";
import type { Panel } from "../wire/types";
import { Frames } from "./frames";
import type { Store } from "./store";
import { Trickle } from "./trickle";
import type { Message } from "./view/reduce";

const INBOX_SETTLES_MS = 120;
const TICK_MS = 1_000;
const SWITCH_MS = 3_000; // it may be a file that somebody has touched: no record tells

export function keepTrue(store: Store): void {
  keepInbox(store);
  keepStream(store);
  keepSwitch(store);
  setInterval(() => {
    if (document.visibilityState === "visible") store.now.value = performance.now();
  }, TICK_MS);
}

function keepStream(store: Store): void {
  const frames = new Frames<Message>((batch) => store.take(batch));
  const panels = new Trickle((batch) => store.putPanels(batch));
  let stop = new AbortController();
  let looking: string | null | undefined;
  effect(() => {
    const run = store.view.value?.run ?? null;
    if (run === looking) return;
    looking = run;
    stop.abort();
    frames.clear();
    stop = new AbortController();
    if (run) void details(store, run);
    void watch(store, { frames, panels }, run, stop.signal);
  });
}

interface Into {
  frames: Frames<Message>;
  panels: Trickle;
}

async function watch(
  store: Store,
  { frames, panels }: Into,
  run: string | null,
  signal: AbortSignal,
): Promise<void> {
  const only = store.me.peek()?.run;
  try {
    await follow(store.client, {
      path: only ? `runs/${only}/events` : "events",
      query: run && !only ? { run } : {},
      after: run ? "0" : "now",
      signal,
      on: {
        record: (data) => frames.push({ event: "record", data }),
        text: (data) => frames.push({ event: "text", data }),
        anew: (data) => {
          frames.push({ event: "anew", data });
          store.details.value = null;
          if (run) void details(store, run);
        },
        panel: (data) => {
          panels.push(data);
          frames.push({ event: "panel", data });
        },
        row: (data) => panels.push(data),
      },
      // What became of other runs between two connections is told by none: it is asked for.
      onOpen: () => quietly(Promise.all([store.loadRows(), store.loadInbox()])),
      onConnected: (isConnected) => (store.isConnected.value = isConnected),
    });
  } catch (error) {
    if (error instanceof Refused && error.status === 401) store.me.value = null;
    else if (error instanceof Refused) store.trouble.value = error.detail;
    else throw error;
  }
}

/** The receipt, the result and the rest that no record tells: once now, and once more at the end. */
async function details(store: Store, run: string): Promise<void> {
  try {
    await store.loadDetails(run);
  } catch (error) {
    if (error instanceof Refused) store.trouble.value = error.detail;
  }
}

function keepSwitch(store: Store): void {
  const look = async (): Promise<void> => {
    if (document.visibilityState !== "visible" || !store.me.peek()) return;
    await store.loadSwitch();
    if (!store.killSwitch.value) clearInterval(timer); // there is none, or not for us
  };
  const timer = setInterval(() => quietly(look()), SWITCH_MS);
  quietly(look());
}

/** What waits for a person is asked for anew whenever the number of such things changes anywhere. */
function keepInbox(store: Store): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  let known = "";
  effect(() => {
    const wanting = [...store.rows.value.values()].map(({ panel }) => wanted(panel)).join();
    if (!store.me.value || wanting === known) return;
    known = wanting;
    clearTimeout(timer);
    timer = setTimeout(() => quietly(store.loadInbox()), INBOX_SETTLES_MS);
  });
}

function wanted(panel: Panel): string {
  const { run, wants, attention, seq } = panel;
  return wants || attention ? `${run} ${wants} ${attention} ${seq}` : "";
}

/** A list that could not be read anew is as it was; that the server is away is said elsewhere. */
function quietly(asked: Promise<unknown>): void {
  asked.catch(() => undefined);
}
