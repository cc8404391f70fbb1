/** Puts the numbers of a panel into words. What a state means, the panel says itself. */

import type { Clock, Panel } from "../wire/types";

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
  const spent = kinds.map(([which, word]): [number, string] => [elapsed(panel, which, sinceMs), word]);
  return spent.flatMap(([ms, word]) => (ms >= 1000 ? `${clock(ms)} ${word}` : [])).join(", ");
}

/** Who is behind the pause, cancel or stop in force: you, if it was you. */
export function byWhom(panel: Panel, me: string): string {
  return panel.by && panel.by === me ? "by you" : panel.who;
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
