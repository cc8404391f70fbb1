/** The two fields of a card: why a call is denied, and which arguments it is to have instead. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Verbatim } from "../../wire/asking";
import type { Card } from "../../wire/types";
import { objectOf, problemOf } from "./edited";

interface SendProps<T> {
  isBusy: boolean;
  onSend: (value: T) => void;
  onClose: () => void;
}

/** A field that was opened by a press has the focus. */
export function useFocused<T extends HTMLElement>(): RefObject<T | null> {
  const field = useRef<T>(null);
  useEffect(() => field.current?.focus(), []);
  return field;
}

export function Deny({ isBusy, onSend, onClose }: SendProps<string>) {
  const [reason, setReason] = useState("");
  const field = useFocused<HTMLInputElement>();
  return (
    <form
      class="inline"
      onSubmit={(event) => (event.preventDefault(), onSend(reason))}
      onKeyDown={(event) => event.key === "Escape" && onClose()}
    >
      <label>
        Why, for the agent
        <input
          ref={field}
          value={reason}
          maxLength={2000}
          onInput={(event) => setReason(event.currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={isBusy}>
        Deny
      </button>
    </form>
  );
}

/** It is sent as the text it is: no number is rounded on the way. */
export function Edit({ args, isBusy, onSend, onClose }: SendProps<Verbatim> & { args: Card["shown"] }) {
  const [text, setText] = useState(() => objectOf(args));
  const why = problemOf(text);
  const field = useFocused<HTMLTextAreaElement>();
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault();
        if (!why) onSend(new Verbatim(text));
      }}
      onKeyDown={(event) => event.key === "Escape" && onClose()}
    >
      <label>
        The arguments, as JSON
        <textarea
          class="mono"
          rows={Math.min(14, text.split("\n").length + 1)}
          value={text}
          ref={field}
          spellcheck={false}
          aria-invalid={Boolean(why)}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <p role="status" class={why ? "problem" : "aside"}>
        {why || "The call above is not made. The changed call is asked about again."}
      </p>
      <button type="submit" disabled={isBusy || Boolean(why)}>
        Ask about the changed call
      </button>
    </form>
  );
}
