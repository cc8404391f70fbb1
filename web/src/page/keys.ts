/** The keys of the page. None of them stops, sends or allows anything by itself; `p`, `r` and `c` are the bar's. */

export const KEYS: readonly [string, string][] = [
  ["j / k", "next, previous run"],
  ["Enter", "open it"],
  ["p", "pause or resume"],
  ["r", "redirect: opens the field"],
  ["c", "cancel: goes to the button"],
  ["a", "answer: what waits for you"],
  ["n", "start a run"],
  ["?", "these keys"],
  ["Esc", "close"],
];

export interface KeyActions {
  answer: () => void;
  help: () => void;
  close: () => void;
}

export function listen(actions: KeyActions): void {
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") return actions.close();
    if (isTyping(event)) return;
    switch (event.key) {
      case "j":
        return step(1);
      case "k":
        return step(-1);
      case "a":
        return actions.answer();
      case "n":
        location.hash = "#/start";
        return;
      case "?":
        return actions.help();
    }
  });
}

function isTyping(event: KeyboardEvent): boolean {
  const at = event.composedPath()[0];
  return at instanceof HTMLElement && (at.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName));
}

function step(by: number): void {
  const rows = [...document.querySelectorAll<HTMLAnchorElement>(".runs a.row")];
  const focused = rows.indexOf(document.activeElement as HTMLAnchorElement);
  const at = focused >= 0 ? focused : rows.findIndex((row) => row.ariaCurrent === "page");
  rows[Math.min(rows.length - 1, Math.max(0, at + by))]?.focus();
}
