/** What somebody has typed, as the server wants it. */
import type { Json } from "../wire/types";

/** What looks like JSON is JSON; all else is text. Which of the two is said below the field. */
export function read(text: string): { value: Json; says: string } {
  const trimmed = text.trim();
  if (!trimmed) return { value: null, says: "JSON or text. Empty: nothing." };
  if (/^[[{"\d-]|^(true|false|null)$/.test(trimmed)) {
    try {
      return { value: JSON.parse(trimmed) as Json, says: "Read as JSON." };
    } catch {
      return { value: text, says: "Not quite JSON: read as text." };
    }
  }
  return { value: text, says: "Read as text." };
}

/** What is no number goes to the server as it is: it says what is wrong with it. */
export function limitsOf(usd: string, steps: string): Record<string, Json> {
  const limits: Record<string, Json> = {};
  if (usd.trim()) limits["usd"] = numberOr(usd.trim());
  if (steps.trim()) limits["steps"] = numberOr(steps.trim());
  return limits;
}

function numberOr(text: string): Json {
  const value = Number(text.replace(",", "."));
  return Number.isFinite(value) ? value : text;
}
