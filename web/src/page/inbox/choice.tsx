/** A button whose second line is its consequence, or why it cannot act now. */
import { once } from "./arming";

interface ChoiceProps {
  label: string;
  says: string;
  kind?: string;
  isOff?: boolean;
  isOpen?: boolean;
  onPress: () => void;
}

export function Choice({ label, says, kind = "", isOff = false, isOpen, onPress }: ChoiceProps) {
  return (
    <button
      type="button"
      class={`choice ${kind}`}
      aria-disabled={isOff}
      aria-expanded={isOpen}
      onKeyDown={once}
      onClick={() => {
        if (!isOff) onPress();
      }}
    >
      <span class="label">{label}</span>
      <span class="says">{says}</span>
    </button>
  );
}
