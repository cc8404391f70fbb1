/** What comes between two frames is handed on together, once. A flood waits in line, not the click. */

const BUDGET = 1_000; // messages for one frame; the rest have the next one

export class Frames<T> {
  #waiting: T[] = [];
  #frame = 0;
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

  #drain = (): void => {
    this.#frame = 0;
    const batch = this.#waiting.slice(0, BUDGET);
    this.#waiting = this.#waiting.slice(BUDGET);
    if (this.#waiting.length) this.#frame = requestAnimationFrame(this.#drain);
    if (batch.length) this.#take(batch);
  };
}
