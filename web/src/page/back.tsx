/** The way back to the list: on a phone it is another screen. */
import { hrefOf } from "./routes";

export function Back() {
  return (
    <a class="back" href={hrefOf({ at: "list" })}>
      All runs
    </a>
  );
}
