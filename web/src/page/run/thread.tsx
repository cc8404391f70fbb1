/** The other runs on the same thread: what came before and after this one. */
import { useEffect, useState } from "preact/hooks";
import { shownLine } from "../../shown";
import type { Panel } from "../../wire/types";
import { memo } from "../memo";
import { hrefOf } from "../routes";
import { useStore } from "../store";
import { moment } from "../words";

export const Thread = memo(function Thread({ run, thread }: { run: string; thread: string }) {
  const { client, me } = useStore();
  const [others, setOthers] = useState<Panel[]>([]);
  const mayLook = !me.value?.run;
  useEffect(() => {
    if (!mayLook) return;
    client.runs({ thread, limit: 20 }).then(setOthers, () => setOthers([]));
  }, [thread, run, mayLook]);
  const found = others.filter((other) => other.run !== run);
  if (!found.length) return null;
  return (
    <section aria-labelledby="thread-title" class="thread">
      <h2 id="thread-title">On the same thread</h2>
      <ul>
        {found.map((other) => (
          <li key={other.run}>
            <span class={`sign ${other.state}`} aria-hidden="true">
              {other.sign}
            </span>
            <a href={hrefOf({ at: "run", run: other.run })}>{shownLine(other.agent, 60)}</a>
            <span class="aside">
              {other.label}, {moment(other.created_at_ms)}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
});
