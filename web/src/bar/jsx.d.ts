/** Lets a page write `<pullcord-bar>` in JSX. */

import type { HTMLAttributes } from "preact";
import type { Panel } from "../wire/types";
import type { PullcordBar } from "./element";

declare module "preact" {
  namespace JSX {
    interface IntrinsicElements {
      "pullcord-bar": HTMLAttributes<PullcordBar> & {
        run?: string;
        base?: string;
        token?: string;
        me?: string;
        theme?: "light" | "dark";
        keys?: "global";
        panel?: Panel | null;
      };
    }
  }
}
