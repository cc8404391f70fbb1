/** Getting in: the code of a launch or share link is turned into a session at once, and forgotten. */
import type { Client } from "../wire/client";
import { Refused } from "../wire/refused";
import type { Me } from "../wire/types";

const CODE = /^#(?:launch|share)=([^&]+)$/;

export type Entry = { me: Me } | { out: string };

/** Take the code out of the URL, so that it is neither seen, copied nor kept in the history. */
export function takeCode(place: Location, past: History): string | null {
  const code = CODE.exec(place.hash)?.[1];
  if (!code) return null;
  past.replaceState(null, "", `${place.pathname}${place.search}#/`);
  return code;
}

/** Returns who I am, or in the server's words why nobody. Throws `Unanswered`. */
export async function enter(client: Client, code: string | null): Promise<Entry> {
  let refused = "";
  if (code) {
    try {
      await client.signIn(code);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      refused = error.detail; // an old link; the session it once gave may still be good
    }
  }
  try {
    return { me: await client.me() };
  } catch (error) {
    if (error instanceof Refused && error.status === 401) return { out: refused };
    throw error;
  }
}
