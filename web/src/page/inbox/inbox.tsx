/** Everything that waits for a person, over all runs. */
import { Back } from "../back";
import { hrefOf } from "../routes";
import { useStore } from "../store";
import { Approval } from "./approval";
import { Asked } from "./asked";
import { Attention } from "./attention";

export function InboxScreen() {
  const { inbox, hasLoaded } = useStore();
  const { cards, questions, attention } = inbox.value;
  const isEmpty = !cards.length && !questions.length && !attention.length;
  return (
    <div class="screen">
      <header>
        <Back />
        <h1>Inbox</h1>
      </header>
      {isEmpty && hasLoaded.value && (
        <p class="empty">
          Nothing waits for you. Calls of tools with <code>approve=</code>, questions of agents and steps in
          doubt come here.
        </p>
      )}
      <Decided />
      <Waiting />
    </div>
  );
}

/** What was said last about a call of a run that is held, until the run goes on: nothing else shows it. */
export function Decided({ run }: { run?: string }) {
  const store = useStore();
  const last = store.decided.value;
  const isShown = last && store.isHeld(last.run) && (!run || run === last.run);
  return (
    <p role="status" class={isShown ? "decided" : "hidden"}>
      {isShown && (
        <>
          {last.says}
          {!run && " "}
          {!run && <a href={hrefOf({ at: "run", run: last.run })}>Go to the run</a>}
        </>
      )}
    </p>
  );
}

/** The cards; of one run only, if it is named. */
export function Waiting({ run }: { run?: string }) {
  const { inbox } = useStore();
  const { at, ...all } = inbox.value;
  const mine = <T extends { run: string }>(found: readonly T[]): T[] =>
    found.filter((one) => !run || one.run === run);
  return (
    <>
      {mine(all.cards).map((card) => (
        <Approval key={`${card.run}/${card.question}`} card={card} at={at} />
      ))}
      {mine(all.questions).map((open) => (
        <Asked key={`${open.run}/${open.question}`} open={open} />
      ))}
      {mine(all.attention).map((item) => (
        <Attention key={`${item.run}/${item.item}`} item={item} />
      ))}
    </>
  );
}
