/** What comes between two drawings is handed on together, once. A flood waits in line, not the click. */

const BUDGET = 1_000; // messages for one drawing; the rest have the next one
const EVERY_MS = 30; // as often as an eye can follow text; the time between belongs to the buttons
const AT_LEAST_EVERY_MS = 200;
const SHARE = 3; // on a busy machine: so many times as long as a drawing took

export class Frames<T> {
  #waiting: T[] = [];
  #frame = 0;
  #last = 0;
  #pace = EVERY_MS;
  readonly #take: (batch: T[]) => void;

  constructor(take: (batch: T[]) => void) {
    this.#take = take;
  }

  push(message: T): void {
    this.#waiting.push(message);
    this.#frame ||= requestAnimationFrame(this.#drain);
  }

  /** Forget what has not been handed on. */
  clear(): void {
    this.#waiting = [];
  }

  #drain = (now: number): void => {
    this.#frame = 0;
    const isTooSoon = now - this.#last < this.#pace;
    const batch = isTooSoon ? [] : this.#waiting.splice(0, BUDGET);
    if (this.#waiting.length) this.#frame = requestAnimationFrame(this.#drain);
    if (!batch.length) return;
    this.#last = now;
    const began = performance.now();
    this.#take(batch);
    setTimeout(() => this.#drawnIn(performance.now() - began)); // after what was handed on has been drawn
  };

  #drawnIn(ms: number): void {
    this.#pace = Math.min(AT_LEAST_EVERY_MS, Math.max(EVERY_MS, ms * SHARE));
  }
}
