/** Light or dark: as the system has it, unless somebody chose. */
import { signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
const KEY = "pullcord-theme";
const ORDER: readonly Theme[] = ["system", "light", "dark"];

export const theme = signal<Theme>("system");

export function restoreTheme(): void {
  try {
    choose(ORDER.find((one) => one === localStorage.getItem(KEY)) ?? "system");
  } catch {
    choose("system"); // storage is closed to us: as the system has it
  }
}

export function nextTheme(): void {
  choose(ORDER[(ORDER.indexOf(theme.value) + 1) % ORDER.length] ?? "system");
  try {
    localStorage.setItem(KEY, theme.value);
  } catch {
    return; // it holds for this visit
  }
}

function choose(one: Theme): void {
  theme.value = one;
  document.documentElement.dataset["theme"] = one;
}
