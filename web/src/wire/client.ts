/** Everything that can be asked of the server, typed: what a bar asks, and what only a page needs. */

import { Asking, type Body, pathOf } from "./asking";
import { dropKey, keepKey } from "./key";
import type { Agent, Engaged, Grant, Inbox, KillSwitch, Me, NewGrant, Panel, Rec, RunDetails } from "./types";

export interface RunsQuery {
  state?: string[];
  thread?: string;
  before?: string;
  limit?: number;
}

export class Client extends Asking {
  me(): Promise<Me> {
    return this.get("me");
  }

  async agents(): Promise<Agent[]> {
    return (await this.get<{ agents: Agent[] }>("agents")).agents;
  }

  async runs(query: RunsQuery = {}): Promise<Panel[]> {
    return (await this.get<{ runs: Panel[] }>("runs", { ...query })).runs;
  }

  async run(run: string): Promise<RunDetails> {
    return this.get(pathOf(run));
  }

  async records(run: string, after = 0, limit?: number): Promise<Rec[]> {
    return (await this.get<{ records: Rec[] }>(pathOf(run, "records"), { after, limit })).records;
  }

  inbox(): Promise<Inbox> {
    return this.get("inbox");
  }

  async grants(): Promise<Grant[]> {
    return (await this.get<{ grants: Grant[] }>("grants")).grants;
  }

  async start(agent: string, body: Body = {}): Promise<string> {
    return (await this.post<{ run: string }>("runs", { ...body, agent })).run;
  }

  /** Turns the code of a launch or share link into a session. */
  async signIn(code: string): Promise<void> {
    keepKey(this.base, (await this.post<{ key: string }>("session", { code })).key);
  }

  async signOut(): Promise<void> {
    await this.post("session/end");
    dropKey(this.base);
  }

  killSwitch(): Promise<KillSwitch> {
    return this.get("kill-switch");
  }

  engage(reason: string): Promise<KillSwitch> {
    return this.post("kill-switch/engage", { reason });
  }

  release({ scope, name }: Pick<Engaged, "scope" | "name">, reason: string): Promise<KillSwitch> {
    return this.post("kill-switch/release", scope === "all" ? { reason } : { reason, [scope]: name });
  }

  grant(body: Body): Promise<NewGrant> {
    return this.post("grants", body);
  }

  revoke(grant: string): Promise<void> {
    return this.post(`grants/${grant}/revoke`);
  }
}
