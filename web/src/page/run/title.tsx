/** What a run is called: by its title, or else by its agent. Whoever may control it can give it another. */
import { useState } from "preact/hooks";
import { shownLine } from "../../shown";
import type { Panel } from "../../wire/types";
import { useFocused } from "../inbox/settling";
import { usePressing } from "../pressing";
import { useStore } from "../store";

const LONGEST = 100; // characters, by the rule of the command

export function Title({ panel }: { panel: Panel }) {
  const store = useStore();
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <div class="titled">
        <h1>{shownLine(panel.title || panel.agent, LONGEST)}</h1>
        {store.may("control") && !panel.quarantined && (
          <button type="button" class="quiet" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
            Rename
          </button>
        )}
      </div>
      {isOpen && <Renaming panel={panel} onClose={() => setOpen(false)} />}
    </>
  );
}

function Renaming({ panel, onClose }: { panel: Panel; onClose: () => void }) {
  const { client } = useStore();
  const [title, setTitle] = useState(panel.title);
  const field = useFocused<HTMLInputElement>();
  const { isBusy, problem, press } = usePressing();
  const rename = async (): Promise<void> => {
    await client.command(panel.run, "rename", { title: title.trim() });
    onClose();
  };
  return (
    <form
      class="inline"
      onSubmit={(event) => (event.preventDefault(), void press(rename))}
      onKeyDown={(event) => event.key === "Escape" && onClose()}
    >
      <label>
        Its title
        <input
          ref={field}
          value={title}
          maxLength={LONGEST}
          autocomplete="off"
          onInput={(event) => setTitle(event.currentTarget.value)}
        />
      </label>
      <button type="submit" disabled={isBusy}>
        Rename
      </button>
      <p role="alert" class="problem">
        {problem}
      </p>
    </form>
  );
}
