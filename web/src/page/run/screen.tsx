/** A run: the report scrolls, the bar below it never moves. */
import { useEffect, useRef, useState } from "preact/hooks";
import { shownLine } from "../../shown";
import type { Json, Panel } from "../../wire/types";
import { Back } from "../back";
import { Decided, Waiting } from "../inbox/inbox";
import { memo } from "../memo";
import { hrefOf } from "../routes";
import { useStore } from "../store";
import { Timeline } from "../timeline/timeline";
import { Value } from "../value";
import { moment } from "../words";
import { BarOf } from "./bar";
import { Besides } from "./besides";
import { Following } from "./following";
import { Outcome, ReceiptOf } from "./receipt";
import { Report } from "./report";
import { Share } from "./share";
import { Thread } from "./thread";
import { Title } from "./title";

const NONE: readonly string[] = [];

export function RunScreen({ run }: { run: string }) {
  const store = useStore();
  const panel = store.panel.value;
  const isOnly = Boolean(store.me.value?.run);
  if (store.trouble.value) {
    return (
      <div class="screen">
        <h1>This run cannot be shown</h1>
        <p class="problem">{store.trouble.value}</p>
        {!isOnly && <a href="#/">All runs</a>}
      </div>
    );
  }
  return (
    <div class="run">
      <Scrolling run={run} isAtWork={panel?.state === "running"}>
        {panel && <Head panel={panel} isOnly={isOnly} />}
        <Body run={run} />
      </Scrolling>
      <div class="bar-place">{panel && <BarOf panel={panel} />}</div>
    </div>
  );
}

function Head({ panel, isOnly }: { panel: Panel; isOnly: boolean }) {
  const { view, details } = useStore();
  const by = view.value?.by;
  const forkedFrom = view.value?.forkedFrom;
  const model = details.value?.model;
  return (
    <header class="head">
      {!isOnly && <Back />}
      <Title key={panel.run} panel={panel} />
      <p class="facts">
        {panel.title && <span>{shownLine(panel.agent, 80)}</span>}
        <span class="mono">{panel.run}</span>
        <span>
          thread <span class="mono">{shownLine(panel.thread, 64)}</span>
        </span>
        <span>
          {by ? `started by ${shownLine(by, 60)}, ` : ""}
          {moment(panel.created_at_ms)}
        </span>
        {model && <span>model {shownLine(model, 60)}</span>}
        {panel.parent && (
          <span>
            part of <a href={hrefOf({ at: "run", run: panel.parent })}>{panel.parent}</a>
          </span>
        )}
        {forkedFrom && (
          <span>
            goes on from <a href={hrefOf({ at: "run", run: forkedFrom })}>{forkedFrom}</a>
          </span>
        )}
        {panel.spent && <span class="num">{panel.spent}</span>}
      </p>
    </header>
  );
}

function Body({ run }: { run: string }) {
  const store = useStore();
  const view = store.view.value;
  const details = store.details.value;
  const panel = store.panel.value;
  if (!view || view.run !== run) return null;
  if (panel?.quarantined) {
    return <p class="empty">It is quarantined: what it said and found is kept as evidence, and not shown.</p>;
  }
  return (
    <>
      {details && details.input !== null && <Given input={details.input} />}
      <Wanted run={run} />
      <Decided run={run} />
      <Report view={view} />
      {view.end && <Outcome end={view.end} />}
      {view.end && panel && <ReceiptOf run={run} seq={panel.seq} />}
      <Timeline run={run} />
      {panel && <Thread run={run} thread={panel.thread} />}
      <Besides run={run} hasEnded={Boolean(view.end)} signals={view.end ? NONE : view.signals} />
      {store.may("admin") && <Share run={run} />}
    </>
  );
}

const Given = memo(function Given({ input }: { input: Json }) {
  return (
    <section aria-labelledby="given-title" class="given">
      <h2 id="given-title">What it was given</h2>
      <Value value={input} label="What it was given" />
    </section>
  );
});

function Wanted({ run }: { run: string }) {
  const { cards, questions, attention } = useStore().inbox.value;
  const isAny = [...cards, ...questions, ...attention].some((one) => one.run === run);
  if (!isAny) return null;
  return (
    <section aria-labelledby="waiting-title" class="wanted" id="waiting" tabIndex={-1}>
      <h2 id="waiting-title">Waits for you</h2>
      <Waiting run={run} />
    </section>
  );
}

interface ScrollingProps {
  run: string;
  isAtWork: boolean;
  children: preact.ComponentChildren;
}

/** Whoever is at the end of what the run does stays there as it grows; whoever scrolls up is left alone. */
function Scrolling({ run, isAtWork, children }: ScrollingProps) {
  const box = useRef<HTMLDivElement>(null);
  const following = useRef<Following>(null);
  const [hasMore, setMore] = useState(false);
  if (following.current) following.current.isAtWork = isAtWork;
  useEffect(() => {
    if (!box.current) return;
    const started = new Following(box.current, isAtWork, setMore);
    following.current = started;
    return () => started.stop();
  }, [run]);
  return (
    <div class="scrolling" ref={box} tabIndex={-1}>
      <article class="column">{children}</article>
      {hasMore && (
        <button type="button" class="to-end" onClick={() => following.current?.toEnd()}>
          <span class="words">To the end</span> ↓
        </button>
      )}
    </div>
  );
}
