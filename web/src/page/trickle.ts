/** Panels, slowed down to what an eye can follow: the last one of each run, ten times a second. One with
 * another state is not slowed down: that is what everybody waits for. */
import type { Panel } from "../wire/types";

const EVERY_MS = 100;

export class Trickle {
  readonly #waiting = new Map<string, Panel>();
  readonly #states = new Map<string, string>();
  readonly #take: (panels: Panel[]) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(take: (panels: Panel[]) => void) {
    this.#take = take;
  }

  push(panel: Panel): void {
    this.#waiting.set(panel.run, panel);
    const state = `${panel.state} ${panel.wants} ${panel.attention}`;
    const isNews = this.#states.get(panel.run) !== state;
    this.#states.set(panel.run, state);
    if (isNews) this.#flush();
    else this.#timer ??= setTimeout(() => this.#flush(), EVERY_MS);
  }

  #flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const panels = [...this.#waiting.values()];
    this.#waiting.clear();
    this.#take(panels);
  }
}
