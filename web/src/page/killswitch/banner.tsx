/** That everything is stopped is said on every screen: by whom, since when, why, and what it did not reach. */
import { useState } from "preact/hooks";
import { shownLine } from "../../shown";
import type { Engaged, KillSwitch } from "../../wire/types";
import { useStore } from "../store";
import { moment } from "../words";
import { Act } from "./act";
import { heldInWords, RELEASE, whatIsStopped } from "./words";

export function StoppedBanner() {
  const { killSwitch, isStopped } = useStore();
  if (!isStopped.value || !killSwitch.value) return null;
  return <Stopped now={killSwitch.value} />;
}

function Stopped({ now }: { now: KillSwitch }) {
  return (
    <section class="stopped-all" aria-label="The kill switch">
      {now.engaged.map((one) => (
        <Line key={`${one.scope} ${one.name}`} one={one} />
      ))}
      <p>
        {heldInWords(now)} Nothing starts until somebody releases it.
        {!now.recorded && " The store cannot be written: it holds all the same, and is recorded when it can be."}
      </p>
      {now.not_stopped.length > 0 && <Left now={now} />}
    </section>
  );
}

function Line({ one }: { one: Engaged }) {
  const store = useStore();
  const [isReleasing, release] = useState(false);
  return (
    <div class="engaged">
      <p role="status">
        <span class="sign" aria-hidden="true">
          ■
        </span>{" "}
        <strong>{whatIsStopped(one)}</strong> by {shownLine(one.by, 60)}, {moment(one.at_ms)}
        {one.reason && <q class="reason">{shownLine(one.reason)}</q>}
      </p>
      {store.mayStopAll.value && (
        <button type="button" onClick={() => release(true)} aria-haspopup="dialog">
          Release
        </button>
      )}
      {isReleasing && (
        <Act
          title="Release"
          says={RELEASE}
          does="Release, resume nothing"
          onClose={() => release(false)}
          act={async (reason) => store.putSwitch(await store.client.release(one, reason))}
        />
      )}
    </div>
  );
}

function Left({ now }: { now: KillSwitch }) {
  return (
    <>
      <p class="problem">Not stopped, and still there:</p>
      <ul>
        {now.not_stopped.map(({ what, why }) => (
          <li key={what}>
            <b>{shownLine(what, 120)}</b>: {shownLine(why)}
          </li>
        ))}
      </ul>
    </>
  );
}
