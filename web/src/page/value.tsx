/** A value as it is in the journal: text as text, all else as JSON. Never markup, never unbounded. */
import { useState } from "preact/hooks";
import { shown } from "../shown";
import type { Json } from "../wire/types";
import { count } from "./words";

const FOLD = 4_000;

export function asText(value: Json): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** The same for reading: what a command has put out, say, with its lines as lines. */
export function readable(value: Json): string {
  const isRecord = value !== null && typeof value === "object" && !Array.isArray(value);
  if (!isRecord || !Object.values(value).some(hasLines)) return asText(value);
  return Object.entries(value)
    .map(([name, one]) => (hasLines(one) ? `${name}:\n${one.trimEnd()}` : `${name}: ${JSON.stringify(one)}`))
    .join("\n");
}

function hasLines(value: Json): value is string {
  return typeof value === "string" && value.includes("\n");
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
