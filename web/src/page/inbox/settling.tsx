/** The two fields of a card: why a call is denied, and which arguments it is to have instead. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { Json } from "../../wire/types";

interface SendProps<T> {
  isBusy: boolean;
  onSend: (value: T) => void;
  onClose: () => void;
}

/** A field that was opened by a press has the focus. */
function useFocused<T extends HTMLElement>(): RefObject<T | null> {
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

export function Edit({ args, isBusy, onSend, onClose }: SendProps<Json> & { args: Json }) {
  const [text, setText] = useState(() => JSON.stringify(args, null, 2));
  const found = parsed(text);
  const field = useFocused<HTMLTextAreaElement>();
  return (
    <form
      class="inline"
      onSubmit={(event) => {
        event.preventDefault();
        if ("value" in found) onSend(found.value);
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
          aria-invalid={"why" in found}
          onInput={(event) => setText(event.currentTarget.value)}
        />
      </label>
      <p role="status" class={"why" in found ? "problem" : "aside"}>
        {"why" in found ? found.why : "The call above is not made. The changed call is asked about again."}
      </p>
      <button type="submit" disabled={isBusy || "why" in found}>
        Ask about the changed call
      </button>
    </form>
  );
}

function parsed(text: string): { value: Json } | { why: string } {
  try {
    const value = JSON.parse(text) as Json;
    if (value && typeof value === "object" && !Array.isArray(value)) return { value };
    return { why: 'Arguments are given by name: an object, like {"to": "ana"}.' };
  } catch (error) {
    return { why: error instanceof Error ? error.message : "This is not JSON." };
  }
}
