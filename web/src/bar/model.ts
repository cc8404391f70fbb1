/** What a bar knows about one run and what it can be asked to do. No DOM: the element hands it panels and presses.
 *
 * Another run has another model (`current.ts`), so that nothing of one is ever taken for the other's. */

import { Refused } from "../wire/refused";
import type { Asking } from "../wire/asking";
import type { Ack, Beginning, Button, Cap, Command, Json, Panel, Raise, Receipt } from "../wire/types";
import { Arming } from "./arming";
import { type Place, places } from "./places";
import { dollars } from "./words";

/** What a bar tells the page around it. */
export interface BarEvents {
  panel: Panel;
  ack: { run: string; verb: Command; ack: Ack };
  problem: { run: string; verb: string; detail: string; ack?: Ack };
  review: { run: string };
  open: { run: string; from: string };
}

export interface Surroundings {
  client: () => Asking;
  now: () => number;
  changed: () => void;
  /** Returns false if somebody took care of it and the bar need not. */
  emit: <K extends keyof BarEvents>(kind: K, detail: BarEvents[K]) => boolean;
}

export const REASONS = ["wrong path", "too expensive", "changed my mind", "looks unsafe"] as const;
export const OTHER = "other…";

const WITH_REASON = new Set<Command>(["pause", "redirect", "cancel"]);
const WITH_SEEN_SEQ = new Set<Command>(["resume", "redirect", "raise"]); // a stop is never stale
const NOTICE_MS = 12_000;

/** A cap to begin with, as a person would write it. */
function proposed({ cap, suggest }: Raise): string {
  return cap === "usd" ? dollars(suggest * 1_000_000).slice(1) : String(suggest);
}

export class BarModel {
  panel: Panel | null = null;
  buttons = new Map<Place, Button>();
  me = "";
  /** Of whoever looks; empty: not known, and the server decides. */
  right = "";
  connected = true;
  /** Why there is nothing to show. */
  refused = "";
  /** One line about the last press, if it did not do what was meant. */
  notice = "";
  open: "" | "redirect" | "raise" | "continue" = "";
  draft = "";
  caps: Partial<Record<Cap, string>> = {};
  reason = "";
  otherReason = "";
  receipt: Receipt | null = null;
  isReceiptOpen = false;

  readonly #around: Surroundings;
  readonly #arming: Arming;
  readonly #busy = new Set<string>();
  #panelAt = 0;
  #noticeTimer: ReturnType<typeof setTimeout> | undefined;

  /** `isAnother`: it takes the place of another run. */
  constructor(around: Surroundings, isAnother = false) {
    this.#around = around;
    this.#arming = new Arming(isAnother);
  }

  // --- what is

  /** How long ago the panel came: what ticks has grown by so much. */
  get sinceMs(): number {
    return this.panel ? this.#around.now() - this.#panelAt : 0;
  }

  get holdLeftMs(): number | null {
    const left = this.panel?.hold_left_ms ?? null;
    return left === null ? null : Math.max(0, left - this.sinceMs);
  }

  isBusy(what: string): boolean {
    return this.#busy.has(what);
  }

  isArmed(place: Place): boolean {
    return this.#arming.isArmed(place, this.#around.now());
  }

  /** Whoever may only look says why to nobody. */
  get mayStop(): boolean {
    return this.right !== "view";
  }

  // --- what comes from the server

  accept(panel: Panel): void {
    if (this.panel && panel.seq < this.panel.seq) return; // an older one, late
    const isNews = panel.seq !== this.panel?.seq;
    if (panel !== this.panel) this.#panelAt = this.#around.now();
    this.panel = panel;
    this.refused = "";
    this.buttons = places(panel, this.right);
    const armedIn = this.#arming.note(this.buttons, this.#around.now());
    if (armedIn > 0) setTimeout(this.#around.changed, armedIn);
    if (!this.#offers("redirect") && this.open === "redirect") this.open = "";
    if (!this.#offers("raise") && this.open === "raise") this.open = "";
    if (!this.#offers("continue") && this.open === "continue") this.open = "";
    if (this.isReceiptOpen && isNews) void this.#fetchReceipt();
    this.#around.changed();
  }

  /** Who looks, and what they may do. */
  introduce(me: string, right: string): void {
    if (me === this.me && right === this.right) return;
    this.me = me;
    this.right = right;
    if (this.panel) this.accept(this.panel);
  }

  lost(): void {
    this.connected = false;
    this.#around.changed();
  }

  found(): void {
    this.connected = true;
    this.#around.changed();
  }

  refuse(error: unknown): void {
    this.refused = error instanceof Error ? error.message : String(error);
    this.#around.changed();
  }

  // --- what a person does

  /** A press of one of the panel's buttons. */
  press(place: Place): void {
    const button = this.buttons.get(place);
    if (!this.panel || !button || !this.isArmed(place) || this.isBusy(button.verb)) return;
    if (button.off) return this.say(button.off);
    switch (button.verb) {
      case "redirect":
      case "raise":
      case "continue":
        return this.toggle(button.verb);
      case "review":
        return this.#review();
      case "fork":
        return void this.#begin(button.verb, button.body);
      case "resume":
        return void this.#resume(button.body);
      default:
        return void this.#command(button.verb, button.body);
    }
  }

  toggle(what: "redirect" | "raise" | "continue"): void {
    this.open = this.open === what ? "" : what;
    if (this.open === "raise") this.caps = Object.fromEntries(this.panel?.raise.map((one) => [one.cap, proposed(one)]) ?? []);
    this.#around.changed();
  }

  close(): void {
    this.open = "";
    this.#around.changed();
  }

  write(draft: string): void {
    this.draft = draft;
    this.#around.changed();
  }

  async sendRedirect(): Promise<void> {
    const instruction = this.draft.trim();
    if (instruction && (await this.#command("redirect", { instruction }))) this.#wasSent();
  }

  /** The next run on the thread begins with these words, and never without any. */
  async sendContinue(): Promise<void> {
    const input = this.draft.trim();
    if (input && !this.isBusy("continue") && (await this.#begin("continue", { input }))) this.#wasSent();
  }

  setCap(cap: Cap, value: string): void {
    this.caps = { ...this.caps, [cap]: value };
    this.#around.changed();
  }

  async sendRaise(): Promise<void> {
    const caps: Record<string, Json> = {};
    for (const { cap } of this.panel?.raise ?? []) {
      const value = Number(this.caps[cap]);
      if (!this.caps[cap]?.trim() || !Number.isFinite(value)) return this.say("A cap is a number.");
      caps[cap] = value;
    }
    if (await this.#command("raise", { caps })) this.close();
  }

  /** Chooses why, for the next pause, redirect or cancel; the same again takes it back. */
  choose(reason: string): void {
    this.reason = this.reason === reason ? "" : reason;
    this.#around.changed();
  }

  writeReason(text: string): void {
    this.otherReason = text;
    this.#around.changed();
  }

  toggleReceipt(): void {
    this.isReceiptOpen = !this.isReceiptOpen;
    if (this.isReceiptOpen) void this.#fetchReceipt();
    this.#around.changed();
  }

  say(notice: string): void {
    this.notice = notice;
    clearTimeout(this.#noticeTimer);
    if (notice) this.#noticeTimer = setTimeout(() => this.say(""), NOTICE_MS);
    this.#around.changed();
  }

  // --- how it is asked for

  /** What was written and not yet sent goes with it: nobody writes an instruction to have it left behind. */
  async #resume(body: Record<string, Json>): Promise<void> {
    const instruction = this.open === "redirect" ? this.draft.trim() : "";
    const isDone = await this.#command("resume", instruction ? { ...body, instruction } : body);
    if (isDone && instruction) this.#wasSent();
  }

  #wasSent(): void {
    this.draft = "";
    this.close();
  }

  async #command(verb: Command, body: Record<string, Json>): Promise<boolean> {
    const panel = this.panel;
    if (!panel) return false;
    const full = { ...body };
    if (WITH_SEEN_SEQ.has(verb)) full["seen_seq"] = panel.seq;
    const reason = this.#takeReason(); // also of a resume: it was not chosen for what comes after
    if (reason && WITH_REASON.has(verb)) full["reason"] = reason;
    return this.#whileBusy(verb, async () => {
      const ack = await this.#around.client().command(panel.run, verb, full);
      this.#around.emit("ack", { run: panel.run, verb, ack });
    });
  }

  async #begin(verb: Beginning, body: Record<string, Json>): Promise<boolean> {
    const from = this.panel?.run ?? "";
    return this.#whileBusy(verb, async () => {
      const run = await this.#around.client().begin(from, verb, body);
      this.#around.emit("open", { run, from });
    });
  }

  async #fetchReceipt(): Promise<void> {
    const panel = this.panel;
    if (!panel) return;
    await this.#whileBusy("receipt", async () => {
      this.receipt = await this.#around.client().receipt(panel.run);
    });
  }

  #review(): void {
    const run = this.panel?.run ?? "";
    if (this.#around.emit("review", { run })) this.say(`Review it on the page: ${this.#around.client().base.href}`);
  }

  /** Shows at once that something was pressed, and says in one line if it did not come to be. */
  async #whileBusy(what: string, act: () => Promise<void>): Promise<boolean> {
    const run = this.panel?.run ?? "";
    this.#busy.add(what);
    this.say("");
    try {
      await act();
      return true;
    } catch (error) {
      const ack = error instanceof Refused ? error.ack : undefined;
      const detail = ack?.message || (error instanceof Error ? error.message : String(error));
      this.say(detail);
      this.#around.emit("problem", { run, verb: what, detail, ...(ack && { ack }) });
      return false;
    } finally {
      this.#busy.delete(what);
      this.#around.changed();
    }
  }

  #takeReason(): string {
    const reason = this.reason === OTHER ? this.otherReason.trim() : this.reason;
    this.reason = "";
    this.otherReason = "";
    return reason;
  }

  #offers(verb: string): boolean {
    return [...this.buttons.values()].some((button) => button.verb === verb && !button.off);
  }
}
