/** Asks the server about one run, or something of it. One call of `command` is one press of a button. */

import { keyOf } from "./key";
import { refusal, Refused, Unanswered } from "./refused";
import type { Ack, Beginning, Command, Json, Receipt } from "./types";
import { BackOff } from "./waiting";

export interface AskingOptions {
  /** For a server elsewhere. On the same origin the session is enough: its cookie, and the key that is kept here. */
  token?: string | undefined;
  fetch?: typeof fetch;
}

export type Query = Record<string, string | number | string[] | undefined>;
export type Body = Record<string, Json | Verbatim | undefined>;

/** JSON as somebody wrote it, sent as it is: to parse it here would round its large numbers. */
export class Verbatim {
  constructor(readonly json: string) {
    JSON.parse(json); // what is none could say something else about the rest of the body
  }
}

const ANSWER_MS = 10_000;
const TRIES = 5;
const LOST_ON_THE_WAY = new Set([502, 503, 504]);

/** Where a run is found. What is no id could be a path of its own, so it is refused before it is sent. */
export function pathOf(run: string, what = ""): string {
  if (/^[0-9A-Za-z][0-9A-Za-z_-]{0,63}$/.test(run)) return what ? `runs/${run}/${what}` : `runs/${run}`;
  const detail = `${JSON.stringify(run.slice(0, 80))} is not the id of a run.`;
  throw new Refused({ type: "about:blank", title: "Not found", status: 404, detail, code: "invalid_id" });
}

export class Asking {
  readonly base: URL;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;

  /** `base`: where the app is mounted, relative to the document. */
  constructor(base: string | URL, options: AskingOptions = {}) {
    this.base = new URL(base, globalThis.document?.baseURI);
    if (!this.base.pathname.endsWith("/")) this.base.pathname += "/";
    this.#token = options.token;
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
  }

  async receipt(run: string): Promise<Receipt> {
    return this.get(pathOf(run, "receipt"));
  }

  /** Asks something of a run. If the answer is lost it asks again with the same key, so that it happens once.
   *
   * Throws `Refused` (with the ack, if it was too late) or, after some tries, `Unanswered`. */
  async command(run: string, verb: Command, body: Body = {}): Promise<Ack> {
    const keyed = { ...body, key: newKey() };
    const backOff = new BackOff();
    for (let tries = 1; ; tries++) {
      try {
        return await this.post<Ack>(pathOf(run, verb), keyed);
      } catch (error) {
        const isLost = error instanceof Refused ? LOST_ON_THE_WAY.has(error.status) : true;
        if (!isLost || tries === TRIES) throw error;
      }
      await backOff.wait();
    }
  }

  /** Makes a new run out of one, and returns its id. Asked once: no key joins two of these. */
  async begin(run: string, verb: Beginning, body: Body = {}): Promise<string> {
    return (await this.post<{ run: string }>(pathOf(run, verb), body)).run;
  }

  async get<T>(path: string, query: Query = {}): Promise<T> {
    return this.#answer(await this.open(path, query, AbortSignal.timeout(ANSWER_MS)));
  }

  async post<T>(path: string, body: Body = {}): Promise<T> {
    const headers = { "Content-Type": "application/json", "X-Pullcord": "1" };
    const signal = AbortSignal.timeout(ANSWER_MS);
    return this.#answer(
      await this.#send(this.#url(path), { method: "POST", headers, body: jsonOf(body), signal }),
    );
  }

  /** Returns the answer to a GET as soon as it begins, for those who read it as it comes. */
  open(path: string, query: Query, signal: AbortSignal): Promise<Response> {
    return this.#send(this.#url(path, query), { headers: {}, signal });
  }

  #url(path: string, query: Query = {}): URL {
    const url = new URL(path, this.base);
    for (const [name, value] of Object.entries(query)) {
      for (const one of Array.isArray(value) ? value : [value]) {
        if (one !== undefined) url.searchParams.append(name, String(one));
      }
    }
    return url;
  }

  async #send(url: URL, request: RequestInit & { headers: Record<string, string> }): Promise<Response> {
    const headers = { ...request.headers };
    const key = this.#token ? undefined : keyOf(this.base);
    if (this.#token) headers["Authorization"] = `Bearer ${this.#token}`;
    if (key) headers["X-Pullcord-Key"] = key;
    let response: Response;
    try {
      response = await this.#fetch(url, { ...request, headers, cache: "no-store", redirect: "error" });
    } catch (error) {
      throw new Unanswered(error);
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }

  async #answer<T>(response: Response): Promise<T> {
    try {
      const text = await response.text();
      return (text === "" ? undefined : JSON.parse(text)) as T;
    } catch (error) {
      throw new Unanswered(error);
    }
  }
}

function jsonOf(body: Body): string {
  const fields = Object.entries(body).filter(([, value]) => value !== undefined);
  const said = ([name, value]: [string, Body[string]]): string =>
    `${JSON.stringify(name)}:${value instanceof Verbatim ? value.json : JSON.stringify(value)}`;
  return `{${fields.map(said).join(",")}}`;
}

/** `crypto.randomUUID` exists only where the page came over HTTPS or from this machine. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
