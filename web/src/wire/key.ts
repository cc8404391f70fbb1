/** This origin's half of a session. A browser sends a cookie to every port of a host; what a page keeps in
 * `localStorage` stays with its own origin. The server wants both. */

/** For a browser that keeps nothing: until the page is left. */
const held = new Map<string, string>();

export function keyOf(base: URL): string | undefined {
  if (!isOurs(base)) return undefined;
  try {
    return localStorage.getItem(nameOf(base)) ?? held.get(nameOf(base));
  } catch {
    return held.get(nameOf(base));
  }
}

export function keepKey(base: URL, key: string): void {
  held.set(nameOf(base), key);
  try {
    localStorage.setItem(nameOf(base), key);
  } catch {
    // it is held for as long as the page is open
  }
}

export function dropKey(base: URL): void {
  held.delete(nameOf(base));
  try {
    localStorage.removeItem(nameOf(base));
  } catch {
    // there was none
  }
}

function nameOf(base: URL): string {
  return `pullcord-key:${base.pathname}`;
}

/** A server of another origin gets a token, and never this. */
function isOurs(base: URL): boolean {
  return base.origin === globalThis.location?.origin;
}
