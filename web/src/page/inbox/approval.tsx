/** A call that waits to be allowed. What will happen comes first; what the agent says about it, after. */
import { useRef, useState } from "preact/hooks";
import { shown, shownLine } from "../../shown";
import type { Body } from "../../wire/asking";
import type { Card } from "../../wire/types";
import { usePressing } from "../pressing";
import { useStore } from "../store";
import { count, left as inWords } from "../words";
import { FIRST, useArmed } from "./arming";
import { TrueCall, useFolding } from "./call";
import { Choice } from "./choice";
import { Deny, Edit } from "./settling";
import { Whose } from "./whose";

/** Of a run that is held. */
const THEN = {
  approved: "It is made when the run is resumed.",
  changed: "The changed call is asked about when the run is resumed.",
  denied: "The agent is told when the run is resumed.",
};

const BECAME = { approve: "approved", edit: "changed", deny: "denied" } as const;

const HELD = "Made when you resume the run, exactly as above";

export function Approval({ card, at }: { card: Card; at: number }) {
  const store = useStore();
  const { client, now } = store;
  const folding = useFolding(card);
  const { ref, missing } = useArmed(card.call, folding.folded.size > 0);
  const { isBusy, problem, press } = usePressing();
  const [open, setOpen] = useState<"" | "deny" | "edit">("");
  const pressed = useRef(""); // the call that was allowed: never twice from here
  const left = card.expires_in_ms - Math.max(0, now.value - at);
  const mayApprove = store.may("approve");
  const why = !mayApprove ? "You may watch, not approve." : left <= 0 ? "It has expired." : "";
  const isHeld = store.isHeld(card.run);
  const body = { question: card.question, call: card.call };

  function settle(verb: "approve" | "edit" | "deny", more: Body = {}): void {
    const allows = verb === "approve"; // a changed call is not allowed, but asked about again
    if (why || (allows && (missing || pressed.current === card.call))) return;
    void press(async () => {
      if (allows) pressed.current = card.call;
      try {
        await client.command(
          card.run,
          verb,
          verb === "deny" ? { question: card.question, ...more } : { ...body, ...more },
        );
        const became = BECAME[verb];
        store.decided.value = { run: card.run, says: `${shownLine(card.tool, 80)} is ${became}. ${THEN[became]}` };
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
      <TrueCall card={card} box={ref} folding={folding} />
      <p class="effects">
        <span>{count(card.shown.length, "argument")}</span>
        <strong>{shownLine(card.policy, 80)}</strong>
        <span class="num">{left > 0 ? `expires in ${inWords(left)}` : "expired"}</span>
        <Whose run={card.run} agent={card.agent} />
      </p>
      {card.text !== asItIsAsked(card) && (
        <figure class="words">
          <figcaption>The agent says</figcaption>
          <blockquote tabIndex={0}>{quoted(card.text)}</blockquote>
        </figure>
      )}
      <div class="choices">
        <Choice
          label="Approve"
          says={why || FIRST[missing] || (isHeld ? HELD : "This one call is made, exactly as above")}
          kind="strong"
          isOff={Boolean(why || missing) || isBusy}
          onPress={() => settle("approve")}
        />
        <Choice
          label="Deny"
          says={why || (isHeld ? "The agent is told why, when you resume the run" : "The agent is told why, and goes on")}
          isOff={Boolean(why) || isBusy}
          onPress={() => setOpen(open === "deny" ? "" : "deny")}
          isOpen={open === "deny"}
        />
        <Choice
          label="Edit the arguments"
          says={why || `The changed call is asked about again${isHeld ? ", when you resume the run" : ""}`}
          isOff={Boolean(why) || isBusy}
          onPress={() => setOpen(open === "edit" ? "" : "edit")}
          isOpen={open === "edit"}
        />
      </div>
      {open === "deny" && (
        <Deny
          isBusy={isBusy}
          onSend={(reason) => settle("deny", reason ? { reason } : {})}
          onClose={() => setOpen("")}
        />
      )}
      {open === "edit" && (
        <Edit
          args={card.shown}
          isBusy={isBusy}
          onSend={(args) => settle("edit", { args })}
          onClose={() => setOpen("")}
        />
      )}
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

/** The library's own question, where the agent's author has written none: nobody's words. */
function asItIsAsked(card: Card): string {
  return `May ${card.tool} be called?`;
}
