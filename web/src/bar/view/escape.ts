/** Escape closes what was opened in place, and means nothing else to the page around. */

import type { BarModel } from "../model";

export function closesOnEscape(event: KeyboardEvent, model: BarModel): void {
  if (event.key !== "Escape" || event.isComposing) return;
  event.stopPropagation();
  model.close();
}
