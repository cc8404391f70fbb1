/** Stop everything: for admins, at the top of the page and far from the buttons of a run. */
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import type { RunState } from "../../wire/types";
import { useStore } from "../store";
import { Act } from "./act";
import { consequence } from "./words";

const LIVING: RunState[] = ["queued", "running", "pausing", "paused", "waiting", "stopping", "cancelling"];
const COUNTED = 100; // as many as one answer has

const isOpen = signal(false);

export function StopEverything() {
  const { mayStopAll, isStopped } = useStore();
  if (!mayStopAll.value || isStopped.value) return null;
  return (
    <button type="button" class="quiet stop-all" onClick={() => (isOpen.value = true)} aria-haspopup="dialog">
      <span aria-hidden="true">■</span> Stop everything
    </button>
  );
}

/** Stands by itself: where the button is may be out of sight by then, on a screen that was turned. */
export function StopDialog() {
  const { isStopped } = useStore();
  useEffect(() => {
    if (isStopped.value) isOpen.value = false; // somebody else was first
  }, [isStopped.value]);
  return isOpen.value && !isStopped.value ? <Ask onClose={() => (isOpen.value = false)} /> : null;
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
      stops
      onClose={onClose}
      act={async (reason) => {
        store.putSwitch(await store.client.engage(reason));
      }}
    />
  );
}
