/** Something a person has to look at. It stays until somebody says that it is dealt with. */
import { shown } from "../../shown";
import type { Item } from "../../wire/types";
import { usePressing } from "../pressing";
import { useStore } from "../store";
import { Choice } from "./choice";
import { Whose } from "./whose";

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
        <Whose run={item.run} agent={item.agent} /> {item.state}
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
