/** What the run has left behind: done, undone, in doubt, not attempted; who stopped it, when, at what cost. */
import { useEffect, useState } from "preact/hooks";
import { shownLine } from "../../shown";
import { Refused } from "../../wire/refused";
import type { Receipt } from "../../wire/types";
import { useStore } from "../store";
import { LongText, Value } from "../value";
import type { End } from "../view/view";
import { Fact } from "./step";

const FEW = 12;

export function Outcome({ end }: { end: End }) {
  const says = { completed: "Result", stopped: "Last answer", failed: "Why it failed", cancelled: "" }[
    end.state
  ];
  if (!says) return null;
  return (
    <section aria-labelledby="outcome-title" class="outcome">
      <h2 id="outcome-title">{says}</h2>
      {end.state === "stopped" && <p>{shownLine(end.says)}</p>}
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
  return (
    <>
      <ul class="tally">
        {receipt.lines.map(
          ({ word, heading, sign, names: steps = [], says = "" }) =>
            heading && (
              <li key={word} class={heading}>
                <span class="sign" aria-hidden="true">
                  {sign}
                </span>
                <span class="word">{capital(word)}</span>
                <span class="names">
                  {names(steps)}
                  {says && <span class="aside">{`${steps.length ? ": " : ""}${says}`}</span>}
                </span>
              </li>
            ),
        )}
      </ul>
      <dl>
        {receipt.lines.map(({ word, heading, says = "" }, at) => !heading && <Fact key={at} name={capital(word)} value={says} />)}
      </dl>
    </>
  );
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}

function names(found: readonly string[]): string {
  const more = found.length > FEW ? ` and ${found.length - FEW} more` : "";
  return `${found
    .slice(0, FEW)
    .map((name) => shownLine(name, 80))
    .join(", ")}${more}`;
}
