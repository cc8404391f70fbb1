/** One press: busy while it is on its way, then done, or refused in the server's own words. */
import { useState } from "preact/hooks";
import { Refused } from "../wire/refused";

export interface Pressing {
  isBusy: boolean;
  problem: string;
  /** Does nothing while another press is on its way. */
  press: (what: () => Promise<unknown>) => Promise<void>;
}

export function usePressing(): Pressing {
  const [isBusy, setBusy] = useState(false);
  const [problem, setProblem] = useState("");
  async function press(what: () => Promise<unknown>): Promise<void> {
    if (isBusy) return;
    setBusy(true);
    setProblem("");
    try {
      await what();
    } catch (error) {
      setProblem(saidBy(error));
    } finally {
      setBusy(false);
    }
  }
  return { isBusy, problem, press };
}

export function saidBy(error: unknown): string {
  if (error instanceof Refused) return error.detail;
  return error instanceof Error ? error.message : String(error);
}
