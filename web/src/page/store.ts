/** Everything the page knows, in one place, as signals. Changed here and in `live`; shown elsewhere. */
import { batch, computed, signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Client } from "../wire/client";
import { Refused } from "../wire/refused";
import type { Ack, Inbox, KillSwitch, Me, Panel, Right, RunDetails } from "../wire/types";
import { inOrder } from "./order";
import { routeOf, type Route } from "./routes";
import { reduceAll, showRest, type Message } from "./view/reduce";
import { empty, type View } from "./view/view";
import { count } from "./words";

const PAGE = 50;
const CATCH_UP_MS = 1_500;
const RIGHTS: readonly Right[] = ["view", "stop", "control", "approve", "admin"];

/** A panel, and when it came, by the clock that its times go on by. */
export interface Row {
  panel: Panel;
  at: number;
}

export class Store {
  readonly client: Client;
  readonly me = signal<Me | null>(null);
  readonly route = signal<Route>({ at: "list" });
  readonly rows = signal<ReadonlyMap<string, Row>>(new Map());
  readonly hasMore = signal(false);
  readonly hasLoaded = signal(false);
  readonly view = signal<View | null>(null);
  readonly panel = signal<Panel | null>(null); // of the run that is looked at; never waits in line
  readonly details = signal<RunDetails | null>(null);
  readonly trouble = signal(""); // why the run cannot be shown, in the server's words
  readonly inbox = signal<Inbox & { at: number }>({ cards: [], questions: [], attention: [], at: 0 });
  readonly decided = signal<{ run: string; says: string } | null>(null); // the last word on a call that has to wait
  readonly killSwitch = signal<KillSwitch | null>(null); // null: there is none here
  readonly isConnected = signal(true);
  readonly announced = signal(""); // for those who listen to the page
  readonly now = signal(performance.now()); // ticks once a second

  readonly ordered = computed(() => inOrder(this.rows.value));
  readonly wants = computed(() => {
    const { cards, questions, attention } = this.inbox.value;
    return cards.length + questions.length + attention.length;
  });

  readonly mayStart = computed(() => this.may("control"));
  readonly isStopped = computed(() => Boolean(this.killSwitch.value?.engaged.length));
  readonly mayStopAll = computed(() => this.killSwitch.value !== null && this.may("admin") && !this.me.value?.run);

  constructor(client: Client) {
    this.client = client;
  }

  may(right: Right): boolean {
    return RIGHTS.indexOf(this.me.value?.right ?? "view") >= RIGHTS.indexOf(right);
  }

  /** What is decided about its calls has to wait until somebody resumes it. */
  isHeld(run: string): boolean {
    const state = this.rows.value.get(run)?.panel.state;
    return state === "pausing" || state === "paused";
  }

  /** A link for one run leads to that run, whatever the URL says. */
  go(hash: string): void {
    const only = this.me.value?.run;
    const route: Route = only ? { at: "run", run: only } : routeOf(hash);
    batch(() => {
      this.route.value = route;
      const run = route.at === "run" ? route.run : null;
      if (run === (this.view.value?.run ?? null)) return;
      this.view.value = run ? empty(run) : null;
      this.#ahead = null;
      this.#openedAt = performance.now();
      setTimeout(() => this.#show(), CATCH_UP_MS);
      this.panel.value = run ? (this.rows.value.get(run)?.panel ?? null) : null;
      this.details.value = null;
      this.trouble.value = "";
    });
  }

  #ahead: View | null = null; // what is read of a history, until it can be shown at once
  #openedAt = 0;

  /** Takes in what came since the last frame, of the run that is looked at. */
  take(messages: readonly Message[]): void {
    const view = this.#ahead ?? this.view.value;
    if (!view) return;
    this.#ahead = reduceAll(view, messages, this.view.value ?? view);
    if (!this.#isCatchingUp(this.#ahead)) this.#show();
  }

  /** A history is not played back before whoever opens a run: it is there, or nearly. */
  #isCatchingUp(view: View): boolean {
    const last = this.panel.value?.seq ?? 0;
    return view.seq < last && performance.now() - this.#openedAt < CATCH_UP_MS;
  }

  #show(): void {
    if (this.#ahead) this.view.value = this.#ahead;
    this.#ahead = null;
  }

  /** How runs are now, be it by the stream or with an answer. */
  putPanels(panels: readonly Panel[]): void {
    batch(() => {
      for (const panel of panels) this.#turn(panel);
      this.#putRows(panels);
    });
  }

  #turn(panel: Panel): void {
    const before = this.panel.value;
    const run = this.view.value?.run;
    if (panel.run !== run || (before && before.run === run && before.seq > panel.seq)) return;
    this.panel.value = panel; // the bar says it aloud
  }

  /** A press was taken: if it holds or stops the run, no further text of it is shown. */
  acknowledged(run: string, ack: Ack): void {
    const shown = this.view.value;
    const view = this.#ahead ?? shown;
    if (!shown || !view?.panel || view.run !== run) return;
    const panel = { ...view.panel, state: ack.state, seq: ack.seq };
    if (ack.seq > view.panel.seq) this.#ahead = reduceAll(view, [{ event: "panel", data: panel }], shown);
    this.#show();
  }

  #putRows(panels: readonly Panel[]): void {
    const rows = new Map(this.rows.value);
    const at = performance.now();
    for (const panel of panels) {
      const known = rows.get(panel.run)?.panel;
      if (!known || known.seq <= panel.seq) rows.set(panel.run, { panel, at });
    }
    this.rows.value = rows;
  }

  async loadRows(before?: string): Promise<void> {
    if (this.me.value?.run) return;
    const found = await this.client.runs(before ? { before, limit: PAGE } : { limit: PAGE });
    batch(() => {
      this.putPanels(found);
      this.hasMore.value = found.length === PAGE;
      this.hasLoaded.value = true;
    });
  }

  async loadMore(): Promise<void> {
    const oldest = [...this.rows.value.values()].sort(
      (a, b) => a.panel.created_at_ms - b.panel.created_at_ms,
    )[0];
    await this.loadRows(oldest?.panel.run);
  }

  #inboxAsked = 0;
  #inboxShown = 0;

  async loadInbox(): Promise<void> {
    const asked = ++this.#inboxAsked;
    const found = await this.client.inbox();
    if (asked < this.#inboxShown) return; // what was asked later is here already
    this.#inboxShown = asked;
    const before = this.wants.value;
    this.inbox.value = { ...found, at: performance.now() };
    if (this.wants.value > before)
      this.announced.value = `${count(this.wants.value, "thing")} to answer or look at.`;
  }

  /** Throws `Unanswered`. Who may not know of it, or has a server without one, is told of none. */
  async loadSwitch(): Promise<void> {
    try {
      this.putSwitch(await this.client.killSwitch());
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.killSwitch.value = null;
    }
  }

  /** What it did not reach is told once, to whoever has engaged it: kept for as long as it is engaged. */
  putSwitch(found: KillSwitch): void {
    const known = this.killSwitch.value;
    const isSame = JSON.stringify(known?.engaged) === JSON.stringify(found.engaged);
    const left = isSame && !found.not_stopped.length ? (known?.not_stopped ?? []) : found.not_stopped;
    const now = { ...found, not_stopped: left };
    if (JSON.stringify(now) !== JSON.stringify(known)) this.killSwitch.value = now;
  }

  async loadDetails(run: string): Promise<void> {
    const found = await this.client.run(run);
    if (this.view.value?.run !== run) return;
    batch(() => {
      this.details.value = found;
      this.putPanels([found.panel]);
    });
  }

  showRest(part: string): void {
    const view = this.view.value;
    if (view) this.view.value = showRest(view, part);
  }
}

export const StoreContext = createContext<Store | null>(null);

export function useStore(): Store {
  const store = useContext(StoreContext);
  if (!store) throw new Error("This is shown outside the page.");
  return store;
}
