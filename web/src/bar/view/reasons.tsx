/** @jsxImportSource ../draw */
/** One tap says why. It rides on the next pause, redirect or cancel; what else is pressed drops it. */

import type { JSX } from "preact";
import { type BarModel, OTHER, REASONS } from "../model";

export function Reasons({ model }: { model: BarModel }): JSX.Element {
  const isOther = model.reason === OTHER;
  return (
    <div class="reasons" role="group" aria-label="Why, said with the next pause, redirect or cancel">
      <span class="name" aria-hidden="true">
        why
      </span>
      {(isOther ? [OTHER] : [...REASONS, OTHER]).map((reason) => (
        <button
          key={reason}
          type="button"
          class="chip"
          aria-pressed={model.reason === reason}
          onClick={() => model.choose(reason)}
        >
          {reason}
        </button>
      ))}
      {isOther && (
        <input
          class="field"
          aria-label="The reason, in your words"
          placeholder="in your words"
          maxLength={500}
          autocomplete="off"
          value={model.otherReason}
          onInput={(event) => model.writeReason(event.currentTarget.value)}
          onKeyDown={(event) => {
            if (event.key !== "Escape") return;
            event.stopPropagation();
            model.choose(OTHER);
          }}
        />
      )}
    </div>
  );
}
