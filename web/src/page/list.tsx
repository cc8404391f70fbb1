/** The runs: those that need a person on top, then the newest. */
import { shownLine } from "../shown";
import { memo } from "./memo";
import { usePressing } from "./pressing";
import { hrefOf } from "./routes";
import { WorkingTime } from "./run/ticking";
import { useStore, type Row } from "./store";
import { which } from "./words";

export function RunList() {
  const store = useStore();
  const { isBusy, problem, press } = usePressing();
  const rows = store.ordered.value;
  const route = store.route.value;
  const open = route.at === "run" ? route.run : "";
  return (
    <nav class="runs" aria-label="Runs">
      <ul>
        {rows.map((row) => (
          <li key={row.panel.run}>
            <RunRow row={row} isOpen={row.panel.run === open} />
          </li>
        ))}
      </ul>
      {!rows.length && store.hasLoaded.value && <NoRuns />}
      {store.hasMore.value && (
        <button type="button" class="quiet" disabled={isBusy} onClick={() => press(() => store.loadMore())}>
          Older runs
        </button>
      )}
      {problem && <p class="problem">{problem}</p>}
    </nav>
  );
}

const RunRow = memo(function RunRow({ row, isOpen }: { row: Row; isOpen: boolean }) {
  const { panel } = row;
  return (
    <a
      class={`row ${panel.state}`}
      href={hrefOf({ at: "run", run: panel.run })}
      aria-current={isOpen ? "page" : undefined}
    >
      <span class="sign" aria-hidden="true">
        {panel.sign}
      </span>
      <span class="name">{shownLine(panel.title || panel.agent, 100)}</span>
      <span class="num">
        <WorkingTime row={row} />
      </span>
      <span class="doing">
        <span class="label">{panel.label}</span>
        {panel.doing && ` · ${shownLine(panel.doing, 80)}`}
      </span>
      <span class="num which" title={`thread ${shownLine(panel.thread, 64)}, run ${panel.run}`}>
        {panel.title ? shownLine(panel.agent, 32) : which(panel)}
      </span>
      {panel.needs && <span class="wants">{panel.needs}</span>}
    </a>
  );
});

export function NoRuns() {
  return (
    <div class="empty">
      <p>No runs yet.</p>
      <p>
        Start one <a href="#/start">here</a>, or in a terminal:
      </p>
      <pre>pullcord run FILE.py:AGENT</pre>
    </div>
  );
}
