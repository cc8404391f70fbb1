/** Keeps a press from meaning something else than what the finger was aimed at.
 *
 * Buttons keep their place while the run goes on, so "Cancel" can become "Stop now" under a double click. A button
 * whose meaning has just changed takes no press for a moment; nor does any button of a run that has just ended, or has
 * just taken the place of another. */

import type { Button } from "../wire/types";

const ARM_MS = 400;

export class Arming {
  #isAnother: boolean;
  readonly #meanings = new Map<string, { meaning: string; armedAt: number }>();

  /** `isAnother`: other buttons than these were under the finger until now. */
  constructor(isAnother = false) {
    this.#isAnother = isAnother;
  }

  /** Notes what each place means now; returns how long until all of them take presses. */
  note(buttons: Map<string, Button>, now: number): number {
    let longest = 0;
    const wereOthers = this.#meanings.size > 0;
    for (const [place, button] of buttons) {
      const meaning = JSON.stringify([button.verb, button.body]);
      const before = this.#meanings.get(place);
      if (before?.meaning !== meaning) {
        const isLate = before || this.#isAnother || (wereOthers && place.startsWith("end-"));
        this.#meanings.set(place, { meaning, armedAt: isLate ? now + ARM_MS : now });
      }
      longest = Math.max(longest, (this.#meanings.get(place)?.armedAt ?? now) - now);
    }
    if (buttons.size) this.#isAnother = false;
    return longest;
  }

  isArmed(place: string, now: number): boolean {
    return (this.#meanings.get(place)?.armedAt ?? 0) <= now;
  }
}
