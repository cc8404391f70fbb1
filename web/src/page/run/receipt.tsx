/** What the run has left behind: done, undone, in doubt, not attempted; who stopped it, when, at what cost. */
import { useEffect, useState } from "preact/hooks";
import { shownLine } from "../../shown";
import { Refused } from "../../wire/refused";
import type { Receipt, Tally } from "../../wire/types";
import { useStore } from "../store";
import { LongText, Value } from "../value";
import type { End } from "../view/view";
import { clock, count, dollars, duration, moment, RUNG } from "../words";
import { Fact } from "./step";

const HEADINGS: readonly [keyof Tally, string, string][] = [
  ["done", "✓", "Done"],
  ["no_undo", "!", "Has no undo"],
  ["undone", "↶", "Undone"],
  ["could_not_undo", "✕", "Could not be undone"],
  ["in_doubt", "?", "In doubt"],
  ["failed", "✕", "Failed"],
  ["interrupted", "■", "Interrupted"],
  ["still_running", "!", "Still running"],
  ["under_way", "●", "Under way"],
  ["not_attempted", "○", "Not attempted"],
];
const FEW = 12;

export function Outcome({ end }: { end: End }) {
  const says = { completed: "Result", stopped: "Last answer", failed: "Why it failed", cancelled: "" }[
    end.state
  ];
  if (!says) return null;
  return (
    <section aria-labelledby="outcome-title" class="outcome">
      <h2 id="outcome-title">{says}</h2>
      {end.leaves.length > 0 && <p>A limit has ended it: {shownLine(end.leaves.join(", "))}.</p>}
      {end.error && <LongText text={end.error} label="Error" />}
      {end.result !== null && <Value value={end.result} label={says} />}
      {end.state === "completed" && end.result === null && <p class="empty">It returned nothing.</p>}
    </section>
  );
}

/** Read anew whenever the run has moved on: before the end it is the receipt so far. */
export function ReceiptOf({ run, seq }: { run: string; seq: number }) {
  const { client } = useStore();
  const [receipt, setReceipt] = useState<Receipt | null>(null);
  const [trouble, setTrouble] = useState("");
  useEffect(() => {
    let isWanted = true;
    client.receipt(run).then(
      (found) => isWanted && setReceipt(found),
      (error: unknown) => isWanted && setTrouble(error instanceof Refused ? error.detail : ""),
    );
    return () => {
      isWanted = false;
    };
  }, [run, seq]);
  return (
    <section aria-labelledby="receipt-title" id="receipt" class="receipt">
      <h2 id="receipt-title">Receipt</h2>
      {trouble && <p class="problem">{trouble}</p>}
      {receipt && <Lists receipt={receipt} />}
    </section>
  );
}

function Lists({ receipt }: { receipt: Receipt }) {
  const { cost, times } = receipt;
  const took = receipt.effect_at_ms ? duration(receipt.effect_at_ms - receipt.asked_at_ms) : "";
  return (
    <>
      <ul class="tally">
        {HEADINGS.filter(([heading]) => heading === "done" || receipt[heading].length).map(
          ([heading, sign, word]) => (
            <li key={heading} class={heading}>
              <span class="sign" aria-hidden="true">
                {sign}
              </span>
              <span class="word">{word}</span>
              <span class="names">
                {names(receipt[heading])}
                {heading === "no_undo" && <span class="aside">: done, and nothing says how to undo it</span>}
              </span>
            </li>
          ),
        )}
      </ul>
      <dl>
        <Fact name="Stopped by" value={receipt.by} />
        <Fact name="Why" value={receipt.reason} />
        <Fact name="Asked" value={receipt.asked_at_ms ? moment(receipt.asked_at_ms) : ""} />
        <Fact
          name="In effect"
          value={took && [`after ${took}`, RUNG[receipt.rung]].filter(Boolean).join("; ")}
        />
        <Fact
          name="Partial text"
          value={
            receipt.partial_text.length
              ? count(receipt.partial_text.length, "part") + " cut, kept in the thread"
              : ""
          }
        />
        <Fact name="Limits" value={receipt.used.join(", ")} />
        <Fact
          name="Time"
          value={[
            `${clock(times.working_ms ?? 0)} working`,
            also(times.waiting_ms, "waiting"),
            also(times.paused_ms, "paused"),
          ]
            .filter(Boolean)
            .join(", ")}
        />
        <Fact name="Cost" value={costWords(cost.usd_micros ?? 0, cost.unknown_calls ?? 0)} />
        <Fact name="Lives on" value={receipt.detached.join(", ")} />
      </dl>
    </>
  );
}

function names(found: readonly string[]): string {
  if (!found.length) return "nothing";
  const more = found.length > FEW ? ` and ${found.length - FEW} more` : "";
  return `${found
    .slice(0, FEW)
    .map((name) => shownLine(name, 80))
    .join(", ")}${more}`;
}

function also(ms: number | undefined, word: string): string {
  return ms && ms >= 1000 ? `${clock(ms)} ${word}` : "";
}

function costWords(micros: number, unknown: number): string {
  const known = micros || !unknown ? dollars(micros) : "";
  return [known, unknown ? `${count(unknown, "call")} of unknown price` : ""].filter(Boolean).join(" and ");
}
