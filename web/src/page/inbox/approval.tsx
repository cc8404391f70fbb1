/** A call that waits to be allowed. What will happen comes first; what the agent says about it, after. */
import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { shown, shownLine } from "../../shown";
import type { Card, Json } from "../../wire/types";
import { usePressing } from "../pressing";
import { hrefOf } from "../routes";
import { useStore } from "../store";
import { count, EFFECT, left as inWords } from "../words";
import { once, useArmed } from "./arming";
import { argumentsOf, TrueCall } from "./call";

export function Approval({ card, at }: { card: Card; at: number }) {
  const store = useStore();
  const { client, now } = store;
  const { ref, isArmed } = useArmed(card.call);
  const { isBusy, problem, press } = usePressing();
  const [open, setOpen] = useState<"" | "deny" | "edit">("");
  const pressed = useRef(""); // the call that was allowed: never twice from here
  const left = card.expires_in_ms - Math.max(0, now.value - at);
  const mayApprove = store.may("approve");
  const why = !mayApprove ? "You may watch, not approve." : left <= 0 ? "It has expired." : "";
  const body = { question: card.question, call: card.call };

  function settle(verb: "approve" | "deny", more: Record<string, Json> = {}): void {
    if (why || (verb === "approve" && (!isArmed || pressed.current === card.call))) return;
    void press(async () => {
      if (verb === "approve") pressed.current = card.call;
      try {
        await client.command(card.run, verb, verb === "deny" ? { question: card.question, ...more } : { ...body, ...more });
      } catch (error) {
        pressed.current = "";
        throw error;
      } finally {
        await store.loadInbox();
      }
    });
  }

  return (
    <article class="card approval" aria-label={`${shownLine(card.tool, 80)} waits to be allowed`}>
      <TrueCall tool={card.tool} args={card.args} box={ref} />
      <p class="effects">
        <span>{count(argumentsOf(card.args).length, "argument")}</span>
        <span>{EFFECT[card.effect] ?? shownLine(card.effect, 40)}</span>
        <strong>{card.can_be_undone ? "can be undone" : "cannot be undone"}</strong>
        <span class="num">{left > 0 ? `expires in ${inWords(left)}` : "expired"}</span>
        <a href={hrefOf({ at: "run", run: card.run })}>{shownLine(card.agent, 60)}</a>
      </p>
      <figure class="words">
        <figcaption>The agent says</figcaption>
        <blockquote tabIndex={0}>{quoted(card.text)}</blockquote>
      </figure>
      <div class="choices">
        <Choice
          label="Approve"
          says={why || (isArmed ? "This one call is made, exactly as above" : "Read it first: ready in a second")}
          kind="strong"
          isOff={Boolean(why) || !isArmed || isBusy}
          onPress={() => settle("approve")}
        />
        <Choice label="Deny" says={why || "The agent is told why, and goes on"} isOff={Boolean(why) || isBusy} onPress={() => setOpen(open === "deny" ? "" : "deny")} isOpen={open === "deny"} />
        <Choice label="Edit the arguments" says={why || "The changed call is asked about again"} isOff={Boolean(why) || isBusy} onPress={() => setOpen(open === "edit" ? "" : "edit")} isOpen={open === "edit"} />
      </div>
      {open === "deny" && <Deny isBusy={isBusy} onSend={(reason) => settle("deny", reason ? { reason } : {})} onClose={() => setOpen("")} />}
      {open === "edit" && <Edit args={card.args} isBusy={isBusy} onSend={(args) => settle("approve", { args })} onClose={() => setOpen("")} />}
      <p role="status" class="problem">
        {problem}
      </p>
    </article>
  );
}

/** Words of an agent. Empty lines cannot push them out of view. */
function quoted(text: string): string {
  return shown(text.trim().replace(/\n\s*\n\s*\n+/g, "\n\n"));
}

interface ChoiceProps {
  label: string;
  says: string;
  kind?: string;
  isOff?: boolean;
  isOpen?: boolean;
  onPress: () => void;
}

/** A button whose second line is its consequence, or why it cannot act now. */
export function Choice({ label, says, kind = "", isOff = false, isOpen, onPress }: ChoiceProps) {
  return (
    <button
      type="button"
      class={`choice ${kind}`}
      aria-disabled={isOff}
      aria-expanded={isOpen}
      onKeyDown={once}
      onClick={() => {
        if (!isOff) onPress();
      }}
    >
      <span class="label">{label}</span>
      <span class="says">{says}</span>
    </button>
  );
}

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

function Deny({ isBusy, onSend, onClose }: SendProps<string>) {
  const [reason, setReason] = useState("");
  const field = useFocused<HTMLInputElement>();
  return (
    <form class="inline" onSubmit={(event) => (event.preventDefault(), onSend(reason))} onKeyDown={(event) => event.key === "Escape" && onClose()}>
      <label>
        Why, for the agent
        <input ref={field} value={reason} maxLength={2000} onInput={(event) => setReason(event.currentTarget.value)} />
      </label>
      <button type="submit" disabled={isBusy}>
        Deny
      </button>
    </form>
  );
}

function Edit({ args, isBusy, onSend, onClose }: SendProps<Json> & { args: Json }) {
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
    return { why: "Arguments are given by name: an object, like {\"to\": \"ana\"}." };
  } catch (error) {
    return { why: error instanceof Error ? error.message : "This is not JSON." };
  }
}
