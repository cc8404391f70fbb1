/** Puts the numbers of a panel into words. What a state means, the panel says itself. */

import type { Cap, Clock, Cost, Panel, Tally } from "../wire/types";

const NUMBER = new Intl.NumberFormat("en"); // made once: the bar is drawn four times a second
const TIME = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });

/** 14:03:27, by the clock of whoever looks */
export function timeOfDay(ms: number): string {
  return TIME.format(ms);
}

/** 00:42, or 1:02:03 from an hour on. */
export function clock(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const two = (n: number): string => String(n).padStart(2, "0");
  const hours = Math.floor(seconds / 3600);
  const rest = `${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return hours ? `${hours}:${rest}` : rest;
}

export function dollars(micros: number): string {
  const digits = micros > 0 && micros < 10_000 ? 4 : 2; // a tenth of a cent is not nothing
  return `$${(micros / 1_000_000).toFixed(digits)}`;
}

/** How long it has been working (or waiting …) by now; `sinceMs` since the panel came. */
export function elapsed(panel: Panel, which: Clock, sinceMs: number): number {
  return panel.times[which] + (panel.ticking === which ? sinceMs : 0);
}

export function timesInWords(panel: Panel, sinceMs: number): string {
  const kinds: [Clock, string][] = [
    ["working_ms", "working"],
    ["waiting_ms", "waiting"],
    ["paused_ms", "paused"],
    ["queued_ms", "queued"],
  ];
  return kinds.map(([which, word]) => `${clock(elapsed(panel, which, sinceMs))} ${word}`).join(" · ");
}

export function costInWords(cost: Cost): string {
  const tokens = `${NUMBER.format(cost.tokens_in)} tokens in · ${NUMBER.format(cost.tokens_out)} out`;
  if (!cost.unknown_calls) return tokens;
  const calls = cost.unknown_calls === 1 ? "1 call" : `${cost.unknown_calls} calls`;
  return `${tokens} · the price of ${calls} is not known`;
}

export interface Reading {
  says: string;
  /** At four fifths of its cap or beyond. */
  isNear: boolean;
}

/** What stands beside the clock: steps and spend against their caps, and any other cap that is near. */
export function readings(panel: Panel): Reading[] {
  const shown = panel.meters.map((meter) => ({ ...meter, isNear: meter.used >= 0.8 * meter.of }));
  const find = (cap: Cap): Reading | undefined => shown.find((meter) => meter.cap === cap);
  const steps = find("steps") ?? { says: panel.steps === 1 ? "1 step" : `${panel.steps} steps`, isNear: false };
  const spend = find("usd") ?? { says: dollars(panel.cost.usd_micros), isNear: false };
  const others = shown.filter((meter) => meter.isNear && meter.cap !== "steps" && meter.cap !== "usd");
  return [...others, steps, spend];
}

const ALWAYS: [keyof Tally, string][] = [
  ["done", "done"],
  ["undone", "undone"],
  ["in_doubt", "in doubt"],
  ["not_attempted", "not attempted"],
];
const IF_ANY: [keyof Tally, string][] = [
  ["could_not_undo", "could not be undone"],
  ["failed", "failed"],
  ["interrupted", "interrupted"],
  ["still_running", "still running"],
  ["under_way", "under way"],
];

/** 2 done (1 has no undo) · 1 undone · 0 in doubt · 1 not attempted */
export function tallyInWords(tally: Tally): string {
  const kinds = [...ALWAYS, ...IF_ANY.filter(([kind]) => tally[kind] > 0)];
  const found = kinds.map(([kind, words]) => `${tally[kind]} ${words}`);
  if (tally.no_undo) found[0] += ` (${tally.no_undo} ${tally.no_undo === 1 ? "has" : "have"} no undo)`;
  return found.join(" · ");
}

/** Who is behind the pause, cancel or stop in force. */
export function byWhom(panel: Panel, me: string): string {
  if (!panel.by) return "";
  if (panel.source === "limit") return "by its limits";
  return panel.by === me ? "by you" : `by ${panel.by}`;
}

/** What follows the label: what it does, or why it does not. Each part is text of others. */
export function about(panel: Panel, holdLeftMs: number | null): string[] {
  const parts: string[] = [];
  if (panel.items && !panel.ended && !panel.by) parts.push(`${panel.items.at} of ${panel.items.of}`);
  if (holdLeftMs !== null) parts.push(`cut in ${Math.ceil(holdLeftMs / 1000)} s`);
  if (panel.doing) parts.push(panel.doing);
  if (panel.state === "failed" && panel.error) parts.push(panel.error);
  if (panel.reason) parts.push(`“${panel.reason}”`);
  if (panel.quarantined) parts.push("quarantined");
  return parts;
}
