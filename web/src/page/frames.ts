/** What comes between two drawings is handed on together, once. A flood waits in line, not the click. */

const BUDGET = 1_000; // messages for one drawing; the rest have the next one
const EVERY_MS = 30; // as often as an eye can follow text; the frames between belong to the buttons

export class Frames<T> {
  #waiting: T[] = [];
  #frame = 0;
  #last = 0;
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
    const isTooSoon = now - this.#last < EVERY_MS;
    const batch = isTooSoon ? [] : this.#waiting.splice(0, BUDGET);
    if (this.#waiting.length) this.#frame = requestAnimationFrame(this.#drain);
    if (!batch.length) return;
    this.#last = now;
    this.#take(batch);
  };
}
