/** A panel for tests. */

import type { Button, ButtonVerb, Panel } from "../wire/types";

export function button(verb: ButtonVerb, more: Partial<Button> = {}): Button {
  return { verb, label: verb, says: "", body: {}, off: "", strong: false, ...more };
}

export function panelOf(more: Partial<Panel> = {}): Panel {
  return {
    run: "r1",
    agent: "churn",
    thread: "t1",
    title: "",
    parent: null,
    seq: 41,
    state: "running",
    sign: "●",
    label: "Running",
    says: "The agent is working.",
    ended: false,
    at_ms: 0,
    created_at_ms: 0,
    updated_at_ms: 0,
    doing: "Score churn risk",
    by: "",
    reason: "",
    source: "",
    hold_left_ms: null,
    times: { working_ms: 42_000, waiting_ms: 3_000, paused_ms: 0, queued_ms: 0 },
    ticking: "working_ms",
    steps: 3,
    items: { at: 3, of: 4 },
    meters: [],
    cost: { usd_micros: 310_000, tokens_in: 12_034, tokens_out: 1_411, unknown_calls: 0 },
    next: { before: "Write memo", after: "Write memo" },
    told: [],
    buttons: [button("pause"), button("redirect"), button("cancel")],
    wants: 0,
    attention: 0,
    raise: [],
    tally: {
      done: 2,
      undone: 1,
      could_not_undo: 0,
      in_doubt: 0,
      failed: 0,
      interrupted: 0,
      still_running: 0,
      under_way: 0,
      not_attempted: 1,
      no_undo: 0,
    },
    error: "",
    driven: true,
    alone: "",
    quarantined: false,
    who: "",
    did: "2 done · 1 undone · 1 not attempted",
    readings: [{ says: "3 steps", near: false }],
    needs: "",
    spent: "12,034 tokens in, 1,411 out",
    ...more,
  };
}
