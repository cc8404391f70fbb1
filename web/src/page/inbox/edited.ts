/** The arguments of a call as text that can be changed: each as the server wrote it, none parsed on the way. */

import type { Card } from "../../wire/types";

export function objectOf(args: Card["shown"]): string {
  return args.length ? `{\n${args.map(([name, json]) => `  ${JSON.stringify(name)}: ${json}`).join(",\n")}\n}` : "{}";
}

/** Why the text cannot be the arguments of a call; empty: it can. */
export function problemOf(text: string): string {
  try {
    const value: unknown = JSON.parse(text);
    if (value && typeof value === "object" && !Array.isArray(value)) return "";
    return 'Arguments are given by name: an object, like {"to": "ana"}.';
  } catch (error) {
    return error instanceof Error ? error.message : "This is not JSON.";
  }
}
