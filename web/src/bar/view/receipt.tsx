/** @jsxImportSource ../draw */
/** The receipt, in calm lines: what was done, taken back, left; who asked, when, and what it cost. */

import type { ComponentChildren, JSX } from "preact";
import type { Clock, Receipt } from "../../wire/types";
import { clock, costInWords, dollars, timeOfDay } from "../words";
import { Text } from "./text";

type Listed = keyof Receipt & ("done" | "no_undo" | "undone" | "could_not_undo" | "in_doubt" | "failed" | "interrupted" | "still_running" | "under_way" | "not_attempted" | "attention" | "detached" | "limits");

const HEADINGS: [Listed, string][] = [
  ["done", "done"],
  ["no_undo", "has no undo"],
  ["undone", "undone"],
  ["could_not_undo", "could not undo"],
  ["in_doubt", "in doubt"],
  ["failed", "failed"],
  ["interrupted", "interrupted"],
  ["still_running", "still running"],
  ["under_way", "under way"],
  ["not_attempted", "not attempted"],
  ["attention", "to look at"],
  ["detached", "lives on"],
  ["limits", "limits"],
];
const CLOCKS: [Clock, string][] = [
  ["working_ms", "working"],
  ["waiting_ms", "waiting"],
  ["paused_ms", "paused"],
  ["queued_ms", "queued"],
];

export function ReceiptLines({ receipt }: { receipt: Receipt | null }): JSX.Element {
  if (!receipt) return <p class="receipt">Reading the receipt …</p>;
  const { cost } = receipt;
  const full = { usd_micros: 0, tokens_in: 0, tokens_out: 0, unknown_calls: 0, ...cost };
  return (
    <dl class="receipt">
      {HEADINGS.map(([kind, name]) => receipt[kind].length > 0 && <Entry key={kind} name={name}>{list(receipt[kind])}{kind === "no_undo" && ": done, and nothing says how to undo it"}</Entry>)}
      {receipt.partial_text.length > 0 && <Entry name="text, cut">{list(receipt.partial_text)}</Entry>}
      {receipt.error && <Entry name="error"><Text of={receipt.error} /></Entry>}
      <Asked receipt={receipt} />
      <Entry name="time">
        {CLOCKS.filter(([which]) => receipt.times[which]).map(([which, word]) => `${clock(receipt.times[which] ?? 0)} ${word}`).join(" · ") || "none"}
      </Entry>
      <Entry name="cost">{`${dollars(full.usd_micros)} · ${costInWords(full)}`}</Entry>
      {receipt.used.length > 0 && <Entry name="used">{receipt.used.join(" · ")}</Entry>}
    </dl>
  );
}

function Asked({ receipt }: { receipt: Receipt }): JSX.Element | null {
  if (!receipt.asked_at_ms) return null;
  const took = receipt.effect_at_ms ? `, in effect ${short(receipt.effect_at_ms - receipt.asked_at_ms)} later` : "";
  const how = receipt.rung ? ` (${receipt.rung.replaceAll("_", " ")})` : "";
  return (
    <Entry name="asked">
      {receipt.by && <Text of={`by ${receipt.by}`} />}
      {` at ${timeOfDay(receipt.asked_at_ms)}${took}${how}`}
      {receipt.reason && " · "}
      {receipt.reason && <Text of={`“${receipt.reason}”`} />}
    </Entry>
  );
}

function short(ms: number): string {
  return ms < 1000 ? `${ms} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function Entry({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="line">
      <dt class="name">{name}</dt>
      <dd class="text">{children}</dd>
    </div>
  );
}

function list(texts: string[]): JSX.Element[] {
  return texts.map((text, at) => (
    <span key={at}>
      {at > 0 && " · "}
      <Text of={text} />
    </span>
  ));
}
