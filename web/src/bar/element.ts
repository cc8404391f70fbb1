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
import { type BarEvents, BarModel, OTHER } from "./model";
import { Bar } from "./view/bar";
import { byWhom } from "./words";

const NO_RUN = 'The bar does not know which: give it the id of a run, <pullcord-bar run="…">, or set its panel.';

const sheet = new CSSStyleSheet();
sheet.replaceSync(css);

export class PullcordBar extends HTMLElement {
  static readonly observedAttributes = ["run", "base", "token", "me", "right", "keys"];

  readonly #root = this.attachShadow({ mode: "open" });
  readonly #model = new BarModel({
    client: () => this.#client(),
    now: () => performance.now(),
    changed: () => this.#changed(),
    emit: (kind, detail) => this.#emit(kind, detail),
  });
  #isFed = false;
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
    return this.#model.panel;
  }

  set panel(panel: Panel | null) {
    this.#isFed = true;
    this.#stop?.abort();
    this.#model.accept(panel);
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
    this.#changed();
  }

  disconnectedCallback(): void {
    this.#stop?.abort();
    this.#listenTo(undefined);
    clearTimeout(this.#tick);
  }

  attributeChangedCallback(name: string): void {
    if (name === "me" || name === "right") this.#introduce();
    if (!this.isConnected) return;
    if (name === "keys") this.#listen();
    else if (name !== "me" && name !== "right") this.#follow();
    this.#changed();
  }

  #introduce(me?: Me): void {
    this.#model.introduce(
      this.getAttribute("me") ?? me?.by ?? "",
      this.getAttribute("right") ?? me?.right ?? "",
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

  #follow(): void {
    this.#stop?.abort();
    if (this.#isFed) return;
    if (this.#model.panel?.run !== this.run) this.#model.accept(null);
    if (!this.run) return this.#model.refuse(NO_RUN);
    this.#stop = new AbortController();
    this.#model.found();
    this.#read(this.#stop.signal).catch((error: unknown) => this.#model.refuse(error));
    this.#client()
      .get<Me>("me")
      .then((me) => this.#introduce(me))
      .catch(() => undefined); // then the server decides what may be pressed
  }

  async #read(signal: AbortSignal): Promise<void> {
    await follow(this.#client(), {
      path: pathOf(this.run, "events"),
      query: { only: "panel" },
      on: { panel: (panel) => this.#accept(panel) },
      onConnected: (is) => (is ? this.#model.found() : this.#model.lost()),
      signal,
    });
  }

  #client(): Asking {
    return new Asking(this.getAttribute("base") ?? "./", { token: this.getAttribute("token") ?? undefined });
  }

  #accept(panel: Panel): void {
    this.#model.accept(panel);
    this.#emit("panel", panel);
  }

  #emit<K extends keyof BarEvents>(kind: K, detail: BarEvents[K]): boolean {
    const event = new CustomEvent(`pullcord:${kind}`, { detail, bubbles: true, composed: true, cancelable: true });
    const isLeftToUs = this.dispatchEvent(event) && !this.#isFed;
    if (kind === "open" && isLeftToUs) this.run = (detail as BarEvents["open"]).run;
    return isLeftToUs;
  }

  // --- keys

  #listen(): void {
    this.#listenTo(this.getAttribute("keys") === "global" ? document : this);
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

if (!customElements.get("pullcord-bar")) customElements.define("pullcord-bar", PullcordBar);
