/** Which run a bar shows, and the model of that one.
 *
 * Another run, or the same id at another server or for somebody else, is another model: what was written, pressed or
 * asked for belongs to the one it was meant for, and what comes back to that one later changes nothing here. */

import type { Asking } from "../wire/asking";
import { type BarEvents, BarModel, type Surroundings } from "./model";

/** Where a run is, and who looks at it. */
export interface Origin {
  base: string;
  token: string;
  run: string;
}

export interface Host extends Omit<Surroundings, "client"> {
  client: (origin: Origin) => Asking;
  /** Asked to show the run that goes on from the one that is shown. */
  follow: (run: string) => void;
}

export class Current {
  origin: Origin = { base: "", token: "", run: "" };
  model: BarModel;
  readonly #host: Host;
  #hasShown = false;

  constructor(host: Host) {
    this.#host = host;
    this.model = this.#modelOf(this.origin);
  }

  /** Returns the model of what is to be shown: the one that there is, or a new one. */
  show(origin: Origin): BarModel {
    const { base, token, run } = this.origin;
    if (origin.base === base && origin.token === token && origin.run === run) return this.model;
    this.#hasShown ||= this.model.panel !== null;
    this.origin = origin;
    this.model = this.#modelOf(origin);
    this.#host.changed();
    return this.model;
  }

  #modelOf(origin: Origin): BarModel {
    const { client, now, changed, emit, follow } = this.#host;
    const isShown = (): boolean => this.model === model;
    const model: BarModel = new BarModel(
      {
        client: () => client(origin),
        now,
        changed: () => isShown() && changed(),
        emit: (kind, detail) => {
          const isLeftToUs = emit(kind, detail) && isShown();
          if (kind === "open" && isLeftToUs) follow((detail as BarEvents["open"]).run);
          return isLeftToUs;
        },
      },
      this.#hasShown,
    );
    return model;
  }
}
