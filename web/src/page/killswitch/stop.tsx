/** Stop everything: for admins, at the top of the page and far from the buttons of a run. */
import { useEffect, useState } from "preact/hooks";
import type { RunState } from "../../wire/types";
import { useStore } from "../store";
import { Act } from "./act";
import { consequence } from "./words";

const LIVING: RunState[] = ["queued", "running", "pausing", "paused", "waiting", "stopping", "cancelling"];
const COUNTED = 100; // as many as one answer has

export function StopEverything() {
  const { mayStopAll, isStopped } = useStore();
  const [isOpen, open] = useState(false);
  if (!mayStopAll.value) return null;
  if (isStopped.value) return isOpen ? <Closed close={() => open(false)} /> : null;
  return (
    <>
      <button type="button" class="quiet stop-all" onClick={() => open(true)} aria-haspopup="dialog">
        <span aria-hidden="true">■</span> Stop everything
      </button>
      {isOpen && <Ask onClose={() => open(false)} />}
    </>
  );
}

/** Somebody else was first. */
function Closed({ close }: { close: () => void }) {
  useEffect(close, []);
  return null;
}

function Ask({ onClose }: { onClose: () => void }) {
  const store = useStore();
  const [living, setLiving] = useState<number | null>(null);
  useEffect(() => {
    const known = (n: number): void => setLiving(n < COUNTED ? n : null);
    store.client.runs({ state: LIVING, limit: COUNTED }).then(
      (runs) => known(runs.length),
      () => setLiving(null),
    );
  }, []);
  return (
    <Act
      title="Stop everything"
      says={consequence(living)}
      does="Stop everything"
      onClose={onClose}
      act={async (reason) => {
        await store.client.engage(reason);
        await store.loadSwitch();
      }}
    />
  );
}
