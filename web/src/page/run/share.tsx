/** A link for one run: whoever has it may watch, or stop. It expires, and can be revoked. */
import { useEffect, useState } from "preact/hooks";
import { Refused } from "../../wire/refused";
import type { Grant } from "../../wire/types";
import { memo } from "../memo";
import { useStore } from "../store";
import { moment } from "../words";

const MAY = { view: "watch this run", stop: "watch and stop this run" } as const;
const EXPIRES: readonly [string, number][] = [
  ["1 hour", 3_600],
  ["1 day", 86_400],
  ["7 days", 604_800],
];

export const Share = memo(function Share({ run }: { run: string }) {
  const { client } = useStore();
  const [right, setRight] = useState<keyof typeof MAY>("view");
  const [seconds, setSeconds] = useState(3_600);
  const [url, setUrl] = useState("");
  const [says, setSays] = useState("");
  const [links, setLinks] = useState<Grant[]>([]);

  async function list(): Promise<void> {
    const all = await client.grants();
    setLinks(all.filter((grant) => grant.kind === "link" && grant.run === run && !grant.revoked));
  }

  async function attempt(what: () => Promise<void>): Promise<void> {
    try {
      await what();
    } catch (error) {
      setSays(error instanceof Refused ? error.detail : "The server does not answer.");
    }
  }

  const make = (): Promise<void> =>
    attempt(async () => {
      const made = await client.grant({ kind: "link", right, run, expires_in_s: seconds });
      setUrl(new URL(made.url, client.base).href);
      setSays("");
      await list();
    });

  const copy = (): Promise<void> =>
    attempt(async () => {
      await navigator.clipboard.writeText(url);
      setSays("Copied.");
    });

  const revoke = (grant: Grant): Promise<void> =>
    attempt(async () => {
      await client.revoke(grant.id);
      setUrl("");
      setSays("That link opens nothing any more.");
      await list();
    });

  useEffect(() => void attempt(list), [run]);

  return (
    <section aria-labelledby="share-title" class="share" id="share">
      <h2 id="share-title">Share</h2>
      <div class="row">
        <label>
          Whoever has the link may
          <select value={right} onChange={(event) => setRight(event.currentTarget.value as keyof typeof MAY)}>
            {Object.entries(MAY).map(([value, words]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <label>
          for
          <select value={seconds} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
            {EXPIRES.map(([words, value]) => (
              <option key={value} value={value}>
                {words}
              </option>
            ))}
          </select>
        </label>
        <button type="button" onClick={make}>
          Make a link
        </button>
      </div>
      {url && (
        <div class="row">
          <input
            class="mono"
            readOnly
            value={url}
            aria-label="The link"
            onFocus={(event) => event.currentTarget.select()}
          />
          <button type="button" onClick={copy}>
            Copy
          </button>
        </div>
      )}
      <p role="status" class="aside">
        {says}
      </p>
      {links.length > 0 && (
        <ul class="links">
          {links.map((grant) => (
            <li key={grant.id}>
              <span>
                Whoever has it may {MAY[grant.right as keyof typeof MAY] ?? grant.right}, until{" "}
                {moment(grant.expires_at_ms)}
              </span>
              <button type="button" class="quiet" onClick={() => revoke(grant)}>
                Revoke
              </button>
            </li>
          ))}
        </ul>
      )}
    </section>
  );
});
