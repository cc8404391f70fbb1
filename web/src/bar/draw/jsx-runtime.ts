/** What JSX in the bar turns into. Its elements and attributes are checked by Preact's types, which cost nothing. */

import type { JSX } from "preact";
import type { WantedElement } from "./draw";

export type { JSX } from "preact";

export function jsx(type: WantedElement["type"], props: WantedElement["props"], key?: string): JSX.Element {
  return { type, props, key } as unknown as JSX.Element;
}

export { jsx as jsxs };
