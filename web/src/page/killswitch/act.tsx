/** An act that concerns everybody: takes two presses, says first what it does, and asks why. A stop waits for no answer. */
import { useEffect, useRef, useState } from "preact/hooks";
import { usePressing } from "../pressing";

interface Props {
  title: string;
  says: string;
  /** On the button that does it. */
  does: string;
  stops?: boolean;
  onClose: () => void;
  act: (reason: string) => Promise<void>;
}

export function Act({ title, says, does, stops = false, onClose, act }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [reason, setReason] = useState("");
  const { isBusy, problem, press } = usePressing();
  useEffect(() => dialog.current?.showModal(), []);
  const why = reason.trim();
  const isReady = stops || why !== "";
  return (
    <dialog ref={dialog} class="act" aria-labelledby="act-title" aria-describedby="act-says" onClose={onClose}>
      <h2 id="act-title">{title}</h2>
      <p id="act-says">{says}</p>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          if (isReady) void press(() => act(why).then(onClose));
        }}
        onKeyDown={(event) => {
          if (event.repeat && event.key === "Enter") event.preventDefault(); // held since it opened
        }}
      >
        <label>
          {stops ? "Why, for the record (may stay empty)" : "Why, for the record (needed)"}
          <input
            value={reason}
            maxLength={500}
            autocomplete="off"
            required={!stops}
            onInput={(event) => setReason(event.currentTarget.value)}
          />
        </label>
        <p role="alert" class="problem">
          {problem}
        </p>
        <div class="buttons">
          <button type="submit" class={stops ? "strong stops" : "strong"} disabled={!isReady} aria-busy={isBusy}>
            {does}
          </button>
          <button type="button" onClick={onClose}>
            Close
          </button>
        </div>
      </form>
    </dialog>
  );
}
