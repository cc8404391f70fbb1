/** A time that goes on while it is looked at. */
import { useStore, type Row } from "../store";
import { clock, duration } from "../words";

/** Since a moment of the server's wall clock, as far as this machine's agrees with it. */
export function Ticking({ from }: { from: number }) {
  const store = useStore();
  void store.now.value; // once a second
  return <>{duration(Math.max(0, serverNow(store.panel.value, store.rows.value) - from))}</>;
}

/** The server's clock, carried on by ours since it last told it. */
function serverNow(panel: Row["panel"] | null, rows: ReadonlyMap<string, Row>): number {
  const row = panel && rows.get(panel.run);
  return row ? row.panel.at_ms + (performance.now() - row.at) : Date.now();
}

export function WorkingTime({ row }: { row: Row }) {
  const { now } = useStore();
  const { times, ticking } = row.panel;
  const grown = ticking === "working_ms" ? Math.max(0, now.value - row.at) : 0;
  return <>{clock(times.working_ms + grown)}</>;
}
