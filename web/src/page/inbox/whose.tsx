/** Whose a card is: the agent, and which of its runs. */
import { shownLine } from "../../shown";
import { hrefOf } from "../routes";
import { useStore } from "../store";
import { which } from "../words";

export function Whose({ run, agent }: { run: string; agent: string }) {
  const { thread, title } = useStore().rows.value.get(run)?.panel ?? { thread: "", title: "" };
  return (
    <a href={hrefOf({ at: "run", run })}>
      {shownLine(agent, 60)} <span class="num">{which({ run, thread, title })}</span>
    </a>
  );
}
