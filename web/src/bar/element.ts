/** `<pullcord-bar run="…" base="…">`: the control bar of one run, for any page.
 *
 * It follows the run by itself, or is fed through `.panel` and then opens no connection. */

import { shownLine } from "../shown";
import { Asking, pathOf } from "../wire/asking";
import { follow } from "../wire/stream";
import type { Me, Panel } from "../wire/types";
import css from "./bar.css?inline";
import { draw, type Wanted } from "./draw/draw";
import { placeOfKey } from "./keys";
import { Current } from "./current";
import { type BarEvents, type BarModel, OTHER } from "./model";
import { Bar } from "./view/bar";
import { byWhom } from "./words";

const NO_RUN = 'The bar does not know which: give it the id of a run, <pullcord-bar run="…">, or set its panel.';

const WHICH = "More than one bar listens to this key: put the focus into the one that you mean.";

/** The bars whose keys work in the whole page. */
const everywhere = new Set<EventTarget>();

const sheet = new CSSStyleSheet();
sheet.replaceSync(css);

export class PullcordBar extends HTMLElement {
  static readonly observedAttributes = ["run", "base", "token", "me", "right", "keys"];

  readonly #root = this.attachShadow({ mode: "open" });
  readonly #current = new Current({
    client: ({ base, token }) => new Asking(base, { token: token || undefined }),
    now: () => performance.now(),
    changed: () => this.#changed(),
    emit: (kind, detail) => this.#emit(kind, detail),
    follow: (run) => (this.run = run),
  });
  #isFed = false;
  #early: Panel | null | undefined; // what it was fed with while it was in no page
  #me: Me | undefined; // as the server last said
  #heard: EventTarget | undefined;
  #stop: AbortController | undefined;
  #isDue = false;
  #tick: ReturnType<typeof setTimeout> | undefined;
  #announced = "";
  #announcement = "";
  #wasOpen = "";
  #wasReason = "";

  constructor() {
    super();
    this.#root.adoptedStyleSheets = [sheet];
  }

  /** How the run is now. To set it is to feed the bar: it then opens no connection of its own. */
  get panel(): Panel | null {
    return this.#early === undefined ? this.#model.panel : this.#early;
  }

  set panel(panel: Panel | null) {
    this.#isFed = true;
    this.#stop?.abort();
    this.#early = this.isConnected ? undefined : panel;
    if (this.isConnected) this.#feed(panel);
  }

  get run(): string {
    return this.getAttribute("run") ?? "";
  }

  set run(run: string) {
    this.setAttribute("run", run);
  }

  connectedCallback(): void {
    this.#takeEarlyPanel();
    this.#listen();
    this.#follow();
    if (this.#early !== undefined) this.#feed(this.#early);
    this.#early = undefined;
    this.#changed();
  }

  disconnectedCallback(): void {
    this.#stop?.abort();
    this.#listenTo(undefined);
    everywhere.delete(this);
    clearTimeout(this.#tick);
  }

  attributeChangedCallback(name: string): void {
    if (name === "me" || name === "right") this.#introduce();
    if (!this.isConnected) return;
    if (name === "keys") this.#listen();
    else if (name !== "me" && name !== "right") this.#follow();
    this.#changed();
  }

  get #model(): BarModel {
    return this.#current.model;
  }

  #introduce(): void {
    this.#model.introduce(
      this.getAttribute("me") ?? this.#me?.by ?? "",
      this.getAttribute("right") ?? this.#me?.right ?? "",
    );
  }

  /** A panel that was set before this file had loaded is a plain property, and hides the real one. */
  #takeEarlyPanel(): void {
    if (!Object.hasOwn(this, "panel")) return;
    const { panel } = this;
    Reflect.deleteProperty(this, "panel");
    this.panel = panel;
  }

  // --- the run

  /** Shows this run of where `base` and `token` lead now. */
  #show(run: string): BarModel {
    const before = this.#current.origin;
    const base = this.getAttribute("base") ?? "./";
    const token = this.getAttribute("token") ?? "";
    if (base !== before.base || token !== before.token) this.#me = undefined;
    const model = this.#current.show({ base, token, run });
    this.#introduce();
    return model;
  }

  #feed(panel: Panel | null): void {
    const model = this.#show(panel?.run ?? "");
    if (panel) model.accept(panel);
  }

  #follow(): void {
    this.#stop?.abort();
    const model = this.#show(this.#isFed ? this.#current.origin.run : this.run);
    if (this.#isFed) return;
    if (!this.run) return model.refuse(NO_RUN);
    const { signal } = (this.#stop = new AbortController());
    model.found();
    this.#read(model, signal).catch((error: unknown) => model.refuse(error));
    this.#ask(signal).catch(() => undefined); // then the server decides what may be pressed
  }

  async #read(model: BarModel, signal: AbortSignal): Promise<void> {
    const panel = (panel: Panel): void => {
      if (signal.aborted) return; // the rest of what had come already
      model.accept(panel);
      this.#emit("panel", panel);
    };
    await follow(this.#client(), {
      path: pathOf(this.run, "events"),
      query: { only: "panel" },
      on: { panel },
      onConnected: (is) => (is ? model.found() : model.lost()),
      signal,
    });
  }

  async #ask(signal: AbortSignal): Promise<void> {
    const me = await this.#client().get<Me>("me");
    if (signal.aborted) return; // about somebody else, perhaps
    this.#me = me;
    this.#introduce();
  }

  #client(): Asking {
    const { base, token } = this.#current.origin;
    return new Asking(base, { token: token || undefined });
  }

  #emit<K extends keyof BarEvents>(kind: K, detail: BarEvents[K]): boolean {
    const event = new CustomEvent(`pullcord:${kind}`, { detail, bubbles: true, composed: true, cancelable: true });
    return this.dispatchEvent(event) && !this.#isFed;
  }

  // --- keys

  #listen(): void {
    const isGlobal = this.getAttribute("keys") === "global";
    if (isGlobal) everywhere.add(this);
    else everywhere.delete(this);
    this.#listenTo(isGlobal ? document : this);
  }

  #listenTo(target: EventTarget | undefined): void {
    this.#heard?.removeEventListener("keydown", this.#onKey);
    this.#heard = target;
    target?.addEventListener("keydown", this.#onKey);
  }

  readonly #onKey = (event: Event): void => {
    const place = placeOfKey(event as KeyboardEvent);
    const button = place && this.#model.buttons.get(place);
    if (!place || !button) return;
    const within = event.composedPath().find(isBar);
    if (within && within !== this) return;
    if (!within && everywhere.size > 1) return this.#model.say(WHICH);
    event.preventDefault();
    const isSecondPress = button.body["now"] === true;
    if (place === "cancel" || isSecondPress) this.#focus(`[data-place="${place}"]`);
    else this.#model.press(place);
  };

  // --- what is seen

  /** Once for all that changes in one go, and before the next key or click is heard. */
  #changed(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    queueMicrotask(() => this.#render());
  }

  #render(): void {
    this.#isDue = false;
    if (!this.isConnected) return;
    const focused = this.#root.activeElement;
    this.#announce();
    draw(Bar({ model: this.#model, announcement: this.#announcement }) as unknown as Wanted, this.#root);
    this.#keepFocus(focused);
    this.#wasOpen = this.#model.open;
    this.#wasReason = this.#model.reason;
    clearTimeout(this.#tick);
    if (this.#model.panel?.ticking || this.#model.holdLeftMs !== null) {
      this.#tick = setTimeout(() => this.#changed(), 250);
    }
  }

  /** A state is announced when it changes, and not while its clock ticks. */
  #announce(): void {
    const { panel, me } = this.#model;
    if (!panel) return;
    const state = [panel.run, panel.state, panel.by, panel.reason].join("\n");
    const words = [panel.label, byWhom(panel, me)].filter(Boolean).join(" ");
    if (this.#announced && this.#announced !== state) this.#announcement = shownLine(`${words}. ${panel.says}`);
    this.#announced = state;
  }

  /** Focus goes to what was opened, back to what opened it, and never to nowhere. */
  #keepFocus(before: Element | null): void {
    const { open, reason } = this.#model;
    const isGone = before !== null && this.#root.activeElement === null;
    if (open && open !== this.#wasOpen) {
      const field = this.#focus(".between .field");
      if (open === "raise") field?.select(); // what is proposed is typed over
    }
    else if (reason === OTHER && reason !== this.#wasReason) this.#focus(".reasons .field");
    else if (isGone) this.#focus(`[data-verb="${this.#wasOpen}"]`, ".bar");
  }

  #focus(...selectors: string[]): HTMLInputElement | undefined {
    const all = selectors.map((one) => this.#root.querySelector<HTMLInputElement>(one));
    const found = all.find((one) => one !== null) ?? undefined;
    found?.focus();
    return found;
  }
}

function isBar(one: EventTarget): boolean {
  return one instanceof Element && one.localName === "pullcord-bar";
}

if (!customElements.get("pullcord-bar")) customElements.define("pullcord-bar", PullcordBar);
