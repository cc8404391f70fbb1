/** The frame: runs on the left, what is looked at on the right; on a phone one after the other. */
import { useEffect, useRef } from "preact/hooks";
import type { Signal } from "@preact/signals";
import { shownLine } from "../shown";
import { InboxScreen } from "./inbox/inbox";
import { KEYS } from "./keys";
import { StoppedBanner } from "./killswitch/banner";
import { StopDialog, StopEverything } from "./killswitch/stop";
import { NoRuns, RunList } from "./list";
import { usePressing } from "./pressing";
import { hrefOf } from "./routes";
import { RunScreen } from "./run/screen";
import { StartScreen } from "./start";
import { useStore } from "./store";
import { nextTheme, theme } from "./theme";

export function Shell({ isHelpOpen }: { isHelpOpen: Signal<boolean> }) {
  const store = useStore();
  const route = store.route.value;
  const isOnly = Boolean(store.me.value?.run);
  return (
    <div class={`shell at-${route.at}${isOnly ? " only" : ""}`}>
      <a
        class="skip"
        href="#main"
        onClick={(event) => (event.preventDefault(), document.getElementById("main")?.focus())}
      >
        Skip to the run
      </a>
      <StoppedBanner />
      {!isOnly && <Side onHelp={() => (isHelpOpen.value = true)} />}
      <main id="main" tabIndex={-1}>
        {!store.isConnected.value && <Lost />}
        <Screen />
      </main>
      <p class="hidden" role="status" aria-live="polite">
        {store.announced.value}
      </p>
      <Help isOpen={isHelpOpen} />
      <StopDialog />
    </div>
  );
}

function Screen() {
  const { route, ordered, hasLoaded } = useStore();
  const at = route.value;
  switch (at.at) {
    case "run":
      return <RunScreen key={at.run} run={at.run} />;
    case "inbox":
      return <InboxScreen />;
    case "start":
      return <StartScreen />;
    default:
      return (
        <div class="screen nothing">
          <h1 class="hidden">Runs</h1>
          {hasLoaded.value &&
            (ordered.value.length ? <p class="empty">Choose a run on the left.</p> : <NoRuns />)}
        </div>
      );
  }
}

function Side({ onHelp }: { onHelp: () => void }) {
  const { wants, route, mayStart } = useStore();
  const at = route.value.at;
  const n = wants.value;
  return (
    <div class="side">
      <header>
        <a class="brand" href="#/" aria-current={at === "list" ? "page" : undefined}>
          Pullcord
        </a>
        <StopEverything />
        <ThemeButton />
      </header>
      <nav class="places" aria-label="Places">
        <a href={hrefOf({ at: "inbox" })} aria-current={at === "inbox" ? "page" : undefined}>
          Inbox {n > 0 && <span class="num count">{n}</span>}
        </a>
        {mayStart.value && (
          <a href={hrefOf({ at: "start" })} aria-current={at === "start" ? "page" : undefined}>
            Start a run
          </a>
        )}
      </nav>
      <RunList />
      <footer>
        <button type="button" class="hint" onClick={onHelp}>
          <kbd>?</kbd> Keys
        </button>
        <Leave />
      </footer>
    </div>
  );
}

/** Who I am here, and a way out. A host's own users leave by the host's own door. */
function Leave() {
  const { me, client } = useStore();
  const { isBusy, problem, press } = usePressing();
  if (me.value?.how !== "session") return null;
  const leave = async (): Promise<void> => {
    await client.signOut();
    me.value = null;
  };
  return (
    <span class="leave">
      <span class="name">{shownLine(me.value.by, 40)}</span>
      <button type="button" class="quiet" aria-busy={isBusy} title={problem} onClick={() => press(leave)}>
        {problem ? "Not signed out. Again" : "Sign out"}
      </button>
    </span>
  );
}

function ThemeButton() {
  const says = { system: "Auto", light: "Light", dark: "Dark" }[theme.value];
  return (
    <button
      type="button"
      class="quiet theme"
      onClick={nextTheme}
      aria-label={`Colours: ${says}. Change`}
      title={`Colours: ${theme.value === "system" ? "as your system has them" : says.toLowerCase()}`}
    >
      <svg viewBox="0 0 16 16" aria-hidden="true">
        <circle cx="8" cy="8" r="6" />
        <path d="M8 2a6 6 0 0 1 0 12z" />
      </svg>{" "}
      {says}
    </button>
  );
}

function Lost() {
  return (
    <p class="lost" role="status">
      The connection is gone. What you see is how it was; the run goes on as it is told. Trying again.
    </p>
  );
}

function Help({ isOpen }: { isOpen: Signal<boolean> }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (isOpen.value) dialog.current?.showModal();
    else dialog.current?.close();
  }, [isOpen.value]);
  return (
    <dialog ref={dialog} class="help" aria-labelledby="help-title" onClose={() => (isOpen.value = false)}>
      <h2 id="help-title">Keys</h2>
      <dl>
        {KEYS.map(([key, does]) => (
          <div key={key}>
            <dt>
              <kbd>{key}</kbd>
            </dt>
            <dd>{does}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={() => (isOpen.value = false)}>
        Close
      </button>
    </dialog>
  );
}
