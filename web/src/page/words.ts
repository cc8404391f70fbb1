/** Numbers and times, as people write them. What happened, the server says in words. */
import { clock } from "../bar/words";
import { shownLine } from "../shown";

export { clock, timeOfDay } from "../bar/words";

/** Which of an agent's runs it is: by its title, or else by its thread, if that was named. */
export function which({ run, thread, title = "" }: { run: string; thread: string; title?: string }): string {
  return title ? shownLine(title, 100) : shownLine(thread || run, 32);
}

/** 340 ms, 4.2 s, 03:10 */
export function duration(ms: number): string {
  if (ms < 999.5) return `${Math.max(0, Math.round(ms))} ms`;
  return ms < 59_950 ? `${(ms / 1000).toFixed(1)} s` : clock(ms);
}

/** What is left of a time: in days as long as it is days. */
export function left(ms: number): string {
  const hours = Math.floor(ms / 3_600_000);
  return hours < 48 ? clock(ms) : `${Math.floor(hours / 24)} days`;
}

export function moment(ms: number): string {
  return MOMENT.format(ms);
}

/** 1,204 */
export function number(n: number): string {
  return NUMBER.format(n);
}

export function count(n: number, one: string, many = `${one}s`): string {
  return `${number(n)} ${n === 1 ? one : many}`;
}

// Made once: making one takes longer than everything else a line needs.
const MOMENT = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium" });
const NUMBER = new Intl.NumberFormat("en");
