/** The bar under the run: fed with panels, so that it needs no connection of its own. */
import { h } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { PullcordBar } from "../../bar/element";
import type { BarEvents } from "../../bar/model";
import type { Panel } from "../../wire/types";
import { held } from "../killswitch/holds";
import { hrefOf } from "../routes";
import { useStore } from "../store";
import { theme } from "../theme";

type Heard = { [K in "ack" | "open" | "review"]: (event: CustomEvent<BarEvents[K]>) => void };

export function BarOf({ panel }: { panel: Panel }) {
  const store = useStore();
  const bar = useRef<PullcordBar>(null);
  useEffect(() => {
    const heard: Heard = {
      ack: ({ detail }) => store.acknowledged(detail.run, detail.ack),
      open: ({ detail }) => {
        if (detail.from === bar.current?.run) location.hash = hrefOf({ at: "run", run: detail.run });
      },
      review: (event) => {
        event.preventDefault();
        review();
      },
    };
    const stop = new AbortController();
    for (const [kind, listener] of Object.entries(heard) as [string, EventListener][]) {
      bar.current?.addEventListener(`pullcord:${kind}`, listener, { signal: stop.signal });
    }
    return () => stop.abort();
  }, []);
  const told = {
    run: panel.run,
    panel: held(panel, store.killSwitch.value, store.mayStopAll.value),
    base: "./",
    me: store.me.value?.by ?? "",
    right: store.me.value?.right ?? "",
    keys: "global",
    theme: theme.value,
  };
  return h("pullcord-bar", { ref: bar, ...told });
}

/** Shows what waits for somebody, which may be on its way; or, if nothing does, what was done so far. */
export function review(looks = 40): void {
  const waiting = document.querySelector<HTMLElement>("#waiting");
  if (!waiting && looks > 0) return void setTimeout(() => review(looks - 1), 50);
  const target = waiting ?? document.querySelector<HTMLElement>("#report");
  target?.scrollIntoView({ block: "start" });
  target?.focus({ preventScroll: true });
}
