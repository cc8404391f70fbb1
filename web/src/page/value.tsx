/** A value as it is in the journal: text as text, all else as JSON. Never markup, never unbounded. */
import { useState } from "preact/hooks";
import { shown } from "../shown";
import type { Json } from "../wire/types";
import { count } from "./words";

const FOLD = 4_000;

export function asText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

export function Value({ value, label }: { value: Json; label: string }) {
  return <LongText text={asText(value)} label={label} />;
}

/** Text in a box of its own, folded if it is long; the box can be scrolled with the keyboard. */
export function LongText({ text, label }: { text: string; label: string }) {
  const [isWhole, show] = useState(false);
  const isLong = text.length > FOLD;
  return (
    <>
      <pre class="value" tabIndex={0} role="group" aria-label={label}>
        {shown(isLong && !isWhole ? text.slice(0, FOLD) : text)}
      </pre>
      {isLong && !isWhole && (
        <button type="button" class="quiet" onClick={() => show(true)}>
          Show all, {count(text.length - FOLD, "more character")}
        </button>
      )}
    </>
  );
}
