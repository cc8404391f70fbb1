/** Keeps the newest line of a run in view, above the bar, for as long as somebody wants to see it.
 *
 * The end is that of what the run did and what came of it, not that of the page: the timeline and what can be asked
 * about the run stand below it, and do not change while it works. */

const ABOVE_BAR = 32; // px: the last of them fade into the bar
const NEAR = 8;

export class Following {
  /** Whoever opens a run that is at work is shown what it does now. */
  isAtWork: boolean;
  readonly #box: HTMLElement;
  readonly #onMore: (hasMore: boolean) => void;
  readonly #grown: ResizeObserver;
  #isFollowing = false;
  #hasBegun = false;
  #top = 0;

  constructor(box: HTMLElement, isAtWork: boolean, onMore: (hasMore: boolean) => void) {
    this.#box = box;
    this.isAtWork = isAtWork;
    this.#onMore = onMore;
    box.scrollTop = 0;
    box.addEventListener("scroll", this.#scrolled, { passive: true });
    this.#grown = new ResizeObserver(() => this.#grew());
    this.#grown.observe(box);
    if (box.firstElementChild) this.#grown.observe(box.firstElementChild);
  }

  stop(): void {
    this.#box.removeEventListener("scroll", this.#scrolled);
    this.#grown.disconnect();
  }

  toEnd(): void {
    this.#isFollowing = true;
    this.#grew();
  }

  #grew(): void {
    const below = this.#below();
    if (below === null) return;
    if (!this.#hasBegun) this.#isFollowing = this.isAtWork || below <= NEAR;
    this.#hasBegun = true;
    if (this.#isFollowing && below > 0) this.#box.scrollTop += below;
    this.#note();
  }

  /** Only a person scrolls up. What has grown since we scrolled down is no reason to stop. */
  readonly #scrolled = (): void => {
    const isUp = this.#box.scrollTop < this.#top;
    const isThere = this.#isEndInView();
    this.#isFollowing = isUp ? isThere : this.#isFollowing || isThere;
    this.#note();
  };

  #note(): void {
    this.#top = this.#box.scrollTop;
    this.#onMore((this.#below() ?? 0) > NEAR);
  }

  #isEndInView(): boolean {
    const below = this.#below();
    return below !== null && below <= NEAR && below > -this.#box.clientHeight;
  }

  /** How far the end is below what can be seen; null: there is nothing yet. */
  #below(): number | null {
    const box = this.#box.getBoundingClientRect();
    const outcome = this.#box.querySelector(".outcome, #receipt")?.getBoundingClientRect();
    const end = (outcome ?? this.#newest()?.getBoundingClientRect())?.bottom;
    if (end === undefined) return null;
    const below = end + ABOVE_BAR - box.bottom;
    return outcome ? Math.min(below, outcome.top - ABOVE_BAR - box.top) : below; // it is read from its beginning
  }

  /** The newest line. What is still planned stands after it, and is no news. */
  #newest(): Element | null | undefined {
    return [...this.#box.querySelectorAll("#report .lines")].at(-1)?.lastElementChild;
  }
}
