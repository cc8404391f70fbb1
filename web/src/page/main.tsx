/** The page. Gets in, then keeps what is shown true. */
import { effect, signal } from "@preact/signals";
import { render } from "preact";
import "../bar/element";
import { shownLine } from "../shown";
import { Client } from "../wire/client";
import { Unanswered } from "../wire/refused";
import { listen } from "./keys";
import { keepTrue } from "./live";
import { Away, Outside } from "./outside";
import { hrefOf } from "./routes";
import { review } from "./run/bar";
import { enter, takeCode } from "./session";
import { Shell } from "./shell";
import { Store, StoreContext } from "./store";
import { restoreTheme } from "./theme";
import "./page.css";

restoreTheme();
const client = new Client("./");
const place = document.body;
void open(takeCode(location, history)).then(() => document.getElementById("opening")?.remove());

async function open(code: string | null): Promise<void> {
  try {
    const found = await enter(client, code);
    if ("out" in found) return standOutside(found.out);
    const store = new Store(client);
    store.me.value = found.me;
    show(store);
  } catch (error) {
    if (!(error instanceof Unanswered)) throw error;
    render(<Away onAgain={() => void open(code)} />, place);
  }
}

/** Whoever is outside may paste a link into this very page. */
function standOutside(says: string): void {
  render(<Outside says={says} />, place);
  addEventListener("hashchange", () => void open(takeCode(location, history)), { once: true });
}

function show(store: Store): void {
  const isHelpOpen = signal(false);
  store.go(location.hash);
  addEventListener("hashchange", () => arrive(store));
  listen({
    answer: () => answer(store),
    help: () => (isHelpOpen.value = true),
    close: () => (isHelpOpen.value = false),
  });
  keepTrue(store);
  store.loadRows().catch(() => undefined); // that the server is away is said by the stream
  effect(() => {
    document.title = titleOf(store);
  });
  effect(() => {
    if (!store.me.value) return render(<Outside says="Your session has ended." />, place);
    render(
      <StoreContext.Provider value={store}>
        <Shell isHelpOpen={isHelpOpen} />
      </StoreContext.Provider>,
      place,
    );
  });
}

/** What a tab is for, and how it is, at a glance. */
function titleOf(store: Store): string {
  const route = store.route.value;
  const panel = store.panel.value;
  if (route.at === "run" && panel) return `${panel.sign} ${shownLine(panel.agent, 40)} · Pullcord`;
  const wants = store.wants.value;
  return wants ? `(${wants}) Pullcord` : "Pullcord";
}

/** Go to what waits for a person: in this run, if something does, else anywhere. */
function answer(store: Store): void {
  if (document.querySelector("#waiting")) review();
  else if (!store.me.value?.run) location.hash = hrefOf({ at: "inbox" });
}

/** Another screen; or a new link, pasted into this page. */
function arrive(store: Store): void {
  const code = takeCode(location, history);
  if (code)
    void client.signIn(code).then(
      () => location.reload(),
      () => location.reload(),
    );
  else store.go(location.hash);
  requestAnimationFrame(() => {
    if (!document.activeElement?.checkVisibility()) document.getElementById("main")?.focus(); // its screen is gone
  });
}
