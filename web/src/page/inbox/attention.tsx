/** Something a person has to look at. It stays until somebody says that it is dealt with. */
import { shown, shownLine } from "../../shown";
import type { Item } from "../../wire/types";
import { usePressing } from "../pressing";
import { hrefOf } from "../routes";
import { useStore } from "../store";
import { Choice } from "./choice";

export function Attention({ item }: { item: Item }) {
  const store = useStore();
  const { isBusy, problem, press } = usePressing();
  const mayAct = store.may("control");
  const settle = (): void =>
    void press(async () => {
      try {
        await store.client.command(item.run, "settle", { item: item.item });
      } finally {
        await store.loadInbox();
      }
    });
  return (
    <article class="card attention" aria-label="Needs attention">
      <p class="asks">
        <span class="sign" aria-hidden="true">
          !
        </span>
        <a href={hrefOf({ at: "run", run: item.run })}>{shownLine(item.agent, 60)}</a> {item.state}
      </p>
      <blockquote tabIndex={0}>{shown(item.text)}</blockquote>
      <div class="choices">
        <Choice
          label="Settle"
          says={mayAct ? "It is dealt with, and leaves this list" : "You may watch, not settle."}
          isOff={isBusy || !mayAct}
          onPress={settle}
        />
      </div>
      <p role="status" class="problem">
        {problem}
      </p>
    </article>
  );
}
