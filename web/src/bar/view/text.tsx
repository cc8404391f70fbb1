/** @jsxImportSource ../draw */
/** Text of others, on one line: never markup, and kept from reordering what stands beside it. */

import type { JSX } from "preact";
import { shownLine } from "../../shown";

export function Text({ of }: { of: string }): JSX.Element {
  return <bdi>{shownLine(of)}</bdi>;
}
