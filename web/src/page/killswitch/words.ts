/** What a kill switch does and has done, in words. */
import { shownLine } from "../../shown";
import type { Engaged, KillSwitch } from "../../wire/types";
import { count } from "../words";

/** What is said before anybody presses. `living`: how many runs have not ended; null: not known. */
export function consequence(living: number | null): string {
  return `${holds(living)} Tools are killed. Nothing starts until somebody releases it.`;
}

function holds(living: number | null): string {
  switch (living) {
    case null:
      return "All runs are held where they are.";
    case 0:
      return "No run is under way.";
    case 1:
      return "The one run that is under way is held where it is.";
    default:
      return `All ${count(living, "run")} are held where they are.`;
  }
}

export const RELEASE =
  "From then on runs may start and go on. It resumes nothing: what was held stays held until somebody resumes it.";

export function whatIsStopped({ scope, name }: Engaged): string {
  switch (scope) {
    case "agent":
      return `Agent ${shownLine(name, 60)} is stopped`;
    case "thread":
      return `Thread ${shownLine(name, 64)} is stopped`;
    default:
      return "Everything is stopped";
  }
}

export function heldInWords({ held }: KillSwitch): string {
  if (!held.length) return "No run is held.";
  return `${count(held.length, "run")} ${held.length === 1 ? "is" : "are"} held.`;
}
