/** The call as it will be made: the tool and every argument on a line of its own, from the journal.
 *
 * However long an argument is, its beginning, its end and all the others stay in view. */
import { type RefObject } from "preact";
import { useState } from "preact/hooks";
import { shown, shownLine } from "../../shown";
import type { Card } from "../../wire/types";
import { number } from "../words";
import { type Folding, foldsOf, HEAD, type Spot, TAIL, TOOL } from "./folding";

interface CallProps {
  card: Card;
  box: RefObject<HTMLDivElement | null>;
  folding: Folding;
}

export function TrueCall({ card, box, folding }: CallProps) {
  const of = (text: string, spot: Spot): FoldedProps => ({ text, spot, folding });
  return (
    <div class="call" ref={box}>
      <p class="tool" data-part>
        <Folded {...of(card.tool, TOOL)} isLine />
      </p>
      <div class="args mono" tabIndex={0} role="group" aria-label={`Arguments of ${shownLine(card.tool, 80)}`}>
        <dl>
          {card.shown.map(([name, json], at) => (
            <div key={name}>
              <dt data-part>
                <Folded {...of(name, `name ${at}`)} isLine />
              </dt>
              <dd data-part>
                <Folded {...of(json, `value ${at}`)} />
              </dd>
            </div>
          ))}
        </dl>
        {!card.shown.length && <p class="aside">no arguments</p>}
        <div class="end" data-part="end" />
      </div>
    </div>
  );
}

/** Which parts of a call are still folded; anew for each call. */
export function useFolding(card: Card): Folding {
  const [opened, setOpened] = useState<{ call: string; spots: Spot[] }>({ call: card.call, spots: [] });
  const spots = opened.call === card.call ? opened.spots : [];
  return {
    folded: foldsOf(card, spots),
    unfold: (spot) => setOpened({ call: card.call, spots: [...spots, spot] }),
  };
}

interface FoldedProps {
  text: string;
  spot: Spot;
  folding: Folding;
  isLine?: boolean;
}

/** Text of any length, never cut: what is not seen of it can be shown. */
function Folded({ text, spot, folding, isLine = false }: FoldedProps) {
  const seen = (part: string): string => (isLine ? shownLine(part, Infinity) : shown(part));
  if (!folding.folded.has(spot)) return <>{seen(text)}</>;
  return (
    <>
      {seen(text.slice(0, HEAD))}
      <button type="button" class="quiet" onClick={() => folding.unfold(spot)}>
        … show {number(text.length - HEAD - TAIL)} characters more …
      </button>
      {seen(text.slice(-TAIL))}
    </>
  );
}
