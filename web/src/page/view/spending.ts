/** What calls have cost. What nobody knows is counted as unknown, never as nothing. */
import type { JournalEvent } from "../../wire/events";
import type { Rec } from "../../wire/types";
import { dollars, number } from "../words";
import type { Draft } from "./draft";
import { NO_SPEND, type Spend } from "./view";

export function spent(draft: Draft, event: Extract<JournalEvent, { type: "spent" }>, rec: Rec): void {
  const cost: Spend = {
    usdMicros: event.cost_usd_micros ?? 0,
    tokensIn: event.tokens_in ?? 0,
    tokensOut: event.tokens_out ?? 0,
    unknown: event.cost_usd_micros == null ? 1 : 0,
    estimated: event.estimated ?? false,
  };
  draft.view.spend = sum(draft.view.spend, cost);
  if (event.step) {
    draft.step(event.step, (step) => ({ spend: sum(step.spend ?? NO_SPEND, cost) }));
  } else {
    draft.note({
      seq: rec.seq,
      at: rec.at_ms,
      sign: "$",
      says: `Spent ${spendWords(cost)}`,
      weight: "faint",
    });
  }
}

function sum(a: Spend, b: Spend): Spend {
  return {
    usdMicros: a.usdMicros + b.usdMicros,
    tokensIn: a.tokensIn + b.tokensIn,
    tokensOut: a.tokensOut + b.tokensOut,
    unknown: a.unknown + b.unknown,
    estimated: a.estimated || b.estimated,
  };
}

/** “1,204 in, 310 out, $0.0021” */
export function spendWords(spend: Spend): string {
  const tokens = `${number(spend.tokensIn)} in, ${number(spend.tokensOut)} out`;
  const known = spend.usdMicros ? `, ${dollars(spend.usdMicros)}` : "";
  const unknown = spend.unknown ? ", price unknown" : "";
  return `${spend.estimated ? "about " : ""}${tokens}${known}${unknown}`;
}
