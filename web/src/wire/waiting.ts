/** Waiting, in ways that can be ended early. */

/** Resolves after `ms`, or as soon as `signal` is aborted. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
  });
}

/** Doubles from 0.25 s to 5 s; a little less by chance, so that many readers do not come back at once. */
export class BackOff {
  #next = 250;

  reset(): void {
    this.#next = 250;
  }

  async wait(signal?: AbortSignal): Promise<void> {
    const ms = this.#next * (0.8 + 0.2 * Math.random());
    this.#next = Math.min(this.#next * 2, 5_000);
    await pause(ms, signal);
  }
}

/** Resolves when the document can be seen (at once, if it can), or `signal` is aborted. */
export function seen(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const look = (): void => {
      if (isHidden() && !signal.aborted) return;
      globalThis.document?.removeEventListener("visibilitychange", look);
      signal.removeEventListener("abort", look);
      resolve();
    };
    globalThis.document?.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
    look();
  });
}

/** A signal that is aborted when the document is hidden, or with `signal`. Drop it when done with it. */
export function whileSeen(signal: AbortSignal): {
  signal: AbortSignal;
  wasHidden: () => boolean;
  drop: () => void;
} {
  const both = new AbortController();
  let wasHidden = false;
  const look = (): void => {
    wasHidden ||= isHidden();
    if (wasHidden || signal.aborted) both.abort();
  };
  const drop = (): void => {
    globalThis.document?.removeEventListener("visibilitychange", look);
    signal.removeEventListener("abort", look);
  };
  globalThis.document?.addEventListener("visibilitychange", look);
  signal.addEventListener("abort", look);
  look();
  return { signal: both.signal, wasHidden: () => wasHidden, drop };
}

function isHidden(): boolean {
  return globalThis.document?.visibilityState === "hidden";
}
