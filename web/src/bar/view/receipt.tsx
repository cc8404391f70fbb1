/** @jsxImportSource ../draw */
/** The receipt, in calm lines: what was done, taken back, left; who asked, when, and what it cost. */

import type { ComponentChildren, JSX } from "preact";
import type { Receipt } from "../../wire/types";
import { Text } from "./text";

export function ReceiptLines({ receipt }: { receipt: Receipt | null }): JSX.Element {
  if (!receipt) return <p class="receipt">Reading the receipt …</p>;
  return (
    <dl class="receipt">
      {receipt.lines.map(({ word, names = [], says }, at) => (
        <Entry key={at} name={word}>
          {list(names)}
          {says && <Text of={`${names.length ? ": " : ""}${says}`} />}
        </Entry>
      ))}
    </dl>
  );
}

function Entry({ name, children }: { name: string; children: ComponentChildren }): JSX.Element {
  return (
    <div class="line">
      <dt class="name">{name}</dt>
      <dd class="text">{children}</dd>
    </div>
  );
}

function list(texts: string[]): JSX.Element[] {
  return texts.map((text, at) => (
    <span key={at}>
      {at > 0 && " · "}
      <Text of={text} />
    </span>
  ));
}
