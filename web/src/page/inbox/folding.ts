/** What of a call is folded because it is long. A call is not allowed while any of it is. */

import type { Card } from "../../wire/types";

export const HEAD = 120;
export const TAIL = 80;
export const TOOL = "tool";

/** A place in a call where a long text can stand. */
export type Spot = typeof TOOL | `name ${number}` | `value ${number}`;

export interface Folding {
  folded: ReadonlySet<Spot>;
  unfold: (spot: Spot) => void;
}

/** The spots of a call that are too long to be shown at once, without those that somebody has `opened`. */
export function foldsOf(card: Pick<Card, "tool" | "shown">, opened: readonly Spot[]): Set<Spot> {
  const texts: [Spot, string][] = [
    [TOOL, card.tool],
    ...card.shown.flatMap(([name, json], at): [Spot, string][] => [
      [`name ${at}`, name],
      [`value ${at}`, json],
    ]),
  ];
  const isLong = ([spot, text]: [Spot, string]): boolean => text.length > HEAD + TAIL && !opened.includes(spot);
  return new Set(texts.filter(isLong).map(([spot]) => spot));
}
