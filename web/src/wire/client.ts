/** Asks the server, and gives its answer back typed. One call of `command` is one press of a button. */

import { refusal, Refused, Unanswered } from "./refused";
import type {
  Ack,
  Agent,
  Beginning,
  Command,
  Grant,
  Inbox,
  Json,
  Me,
  NewGrant,
  Panel,
  Rec,
  Receipt,
  RunDetails,
} from "./types";
import { BackOff } from "./waiting";

export interface ClientOptions {
  /** For a server elsewhere. On the same origin the session's cookie is enough. */
  token?: string | undefined;
  fetch?: typeof fetch;
}

export interface RunsQuery {
  state?: string[];
  thread?: string;
  before?: string;
  limit?: number;
}

type Query = Record<string, string | number | string[] | undefined>;
type Body = Record<string, Json | undefined>;

const ANSWER_MS = 10_000;
const TRIES = 5;
const LOST_ON_THE_WAY = new Set([502, 503, 504]);

export class Client {
  readonly base: URL;
  readonly #token: string | undefined;
  readonly #fetch: typeof fetch;

  /** `base`: where the app is mounted, relative to the document. */
  constructor(base: string | URL, options: ClientOptions = {}) {
    this.base = new URL(base, globalThis.document?.baseURI);
    if (!this.base.pathname.endsWith("/")) this.base.pathname += "/";
    this.#token = options.token;
    this.#fetch = options.fetch ?? ((...request) => fetch(...request));
  }

  me(): Promise<Me> {
    return this.get("me");
  }

  async agents(): Promise<Agent[]> {
    return (await this.get<{ agents: Agent[] }>("agents")).agents;
  }

  async runs(query: RunsQuery = {}): Promise<Panel[]> {
    return (await this.get<{ runs: Panel[] }>("runs", { ...query })).runs;
  }

  run(run: string): Promise<RunDetails> {
    return this.get(`runs/${run}`);
  }

  receipt(run: string): Promise<Receipt> {
    return this.get(`runs/${run}/receipt`);
  }

  async records(run: string, after = 0, limit?: number): Promise<Rec[]> {
    return (await this.get<{ records: Rec[] }>(`runs/${run}/records`, { after, limit })).records;
  }

  inbox(): Promise<Inbox> {
    return this.get("inbox");
  }

  async grants(): Promise<Grant[]> {
    return (await this.get<{ grants: Grant[] }>("grants")).grants;
  }

  /** Asks something of a run. If the answer is lost it asks again with the same key, so that it happens once.
   *
   * Throws `Refused` (with the ack, if it was too late) or, after some tries, `Unanswered`. */
  async command(run: string, verb: Command, body: Body = {}): Promise<Ack> {
    const keyed = { ...body, key: newKey() };
    const backOff = new BackOff();
    for (let tries = 1; ; tries++) {
      try {
        return await this.post<Ack>(`runs/${run}/${verb}`, keyed);
      } catch (error) {
        const isLost = error instanceof Refused ? LOST_ON_THE_WAY.has(error.status) : true;
        if (!isLost || tries === TRIES) throw error;
      }
      await backOff.wait();
    }
  }

  /** Makes a new run out of one, and returns its id. Asked once: no key joins two of these. */
  async begin(run: string, verb: Beginning, body: Body = {}): Promise<string> {
    return (await this.post<{ run: string }>(`runs/${run}/${verb}`, body)).run;
  }

  async start(agent: string, body: Body = {}): Promise<string> {
    return (await this.post<{ run: string }>("runs", { ...body, agent })).run;
  }

  /** Turns the code of a launch or share link into a session. */
  signIn(code: string): Promise<void> {
    return this.post("session", { code });
  }

  signOut(): Promise<void> {
    return this.post("session/end");
  }

  grant(body: Body): Promise<NewGrant> {
    return this.post("grants", body);
  }

  revoke(grant: string): Promise<void> {
    return this.post(`grants/${grant}/revoke`);
  }

  async get<T>(path: string, query: Query = {}): Promise<T> {
    return this.#answer(await this.open(path, query, AbortSignal.timeout(ANSWER_MS)));
  }

  async post<T>(path: string, body: Body = {}): Promise<T> {
    const headers = { "Content-Type": "application/json", "X-Pullcord": "1" };
    const signal = AbortSignal.timeout(ANSWER_MS);
    return this.#answer(
      await this.#send(this.#url(path), { method: "POST", headers, body: JSON.stringify(body), signal }),
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
    if (this.#token) headers["Authorization"] = `Bearer ${this.#token}`;
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

/** `crypto.randomUUID` exists only where the page came over HTTPS or from this machine. */
function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
