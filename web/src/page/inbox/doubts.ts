/** Steps of an earlier run of which nobody knows: several, on one card of the run that goes on from it. */
import type { Json } from "../../wire/types";

export interface DoubtLine {
  step: string;
  name: string;
  known: string;
  args: Json;
}

export function doubtsIn(details: Json): DoubtLine[] {
  if (!details || typeof details !== "object" || Array.isArray(details)) return [];
  const listed = details["doubts"];
  if (!Array.isArray(listed)) return [];
  return listed.flatMap((one) => {
    if (!one || typeof one !== "object" || Array.isArray(one)) return [];
    const { step, name, known, args } = one;
    const isOne = typeof step === "string" && typeof name === "string" && typeof known === "string";
    return isOne ? [{ step, name, known, args: args ?? null }] : [];
  });
}
