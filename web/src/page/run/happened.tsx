/** What happened between the steps: who pressed what, who said what, what was asked, who was born. */
import { shown, shownLine } from "../../shown";
import { memo } from "../memo";
import { hrefOf } from "../routes";
import { useStore } from "../store";
import { asText } from "../value";
import type { Child, Note, Question, Told } from "../view/view";
import { duration, moment, RUNG, timeOfDay } from "../words";

export const NoteLine = memo(function NoteLine({ note }: { note: Note }) {
  const effect = note.took >= 0 ? `in effect after ${duration(note.took)}` : "";
  const rung = note.took >= 0 ? RUNG[note.rung] : "";
  return (
    <Line sign={note.sign} at={note.at} kind={note.weight} via={note.via}>
      {note.by && note.source !== "limit" && <b>{who(note.by, note.source)} </b>}
      {shownLine(note.says)}
      <Reason text={note.reason} />
      <Aside text={[effect, rung].filter(Boolean).join("; ")} />
    </Line>
  );
});

const OUTCOME = {
  queued: "waits to be delivered",
  delivered: "delivered",
  returned: "never delivered: the run ended first",
  withdrawn: "withdrawn",
} as const;

export const ToldLine = memo(function ToldLine({ told }: { told: Told }) {
  return (
    <Line sign="↪" at={told.at} kind="press">
      <b>{shownLine(told.by, 60)}</b> {told.rewrote ? "rewrote what comes next" : "said"}
      <Reason text={told.reason} />
      <Aside text={OUTCOME[told.outcome]} />
      <blockquote>{shown(told.text)}</blockquote>
    </Line>
  );
});

const VERDICT: Record<string, string> = {
  approved: "approved it",
  denied: "denied it",
  edited: "changed the arguments",
  expired: "Nobody answered in time",
  "": "answered",
};

export const QuestionLine = memo(function QuestionLine({ question }: { question: Question }) {
  const { kind, status } = question;
  const sign =
    status === "open" ? "?" : status === "withdrawn" ? "○" : question.verdict === "denied" ? "✕" : "✓";
  return (
    <Line sign={sign} at={question.at} kind={kind === "timer" ? "faint" : "press"}>
      {kind === "approval" ? <Call question={question} /> : shownLine(question.text, 400)}
      {status === "open" && kind !== "timer" && <Aside text="waits for an answer, above" />}
      {status === "withdrawn" && <Aside text={`withdrawn${question.reason ? `: ${question.reason}` : ""}`} />}
      {status === "answered" && kind !== "timer" && (
        <div class="answer">
          {question.verdict !== "expired" && <b>{shownLine(question.by, 60)} </b>}
          {VERDICT[question.verdict] ?? question.verdict}
          {!question.verdict && `: ${shownLine(asText(question.value))}`}
          <Reason text={question.reason} />
          <Aside text={`after ${duration(question.settledAt - question.at)}`} />
        </div>
      )}
    </Line>
  );
});

function Call({ question }: { question: Question }) {
  const details = question.details;
  const args = details && typeof details === "object" && !Array.isArray(details) ? details["args"] : null;
  return (
    <>
      Asked to be allowed:{" "}
      <code>
        {shownLine(question.tool, 60)}({shownLine(args ? JSON.stringify(args) : "", 160)})
      </code>
    </>
  );
}

export const ChildLine = memo(function ChildLine({ child }: { child: Child }) {
  const { rows } = useStore();
  const panel = rows.value.get(child.id)?.panel;
  const state = child.state || panel?.label.toLowerCase() || "under way";
  return (
    <div class="line child">
      <span class="sign" aria-hidden="true">
        {panel?.sign ?? "⤷"}
      </span>
      <div class="words">
        Started <a href={hrefOf({ at: "run", run: child.id })}>{shownLine(child.agent || child.id, 80)}</a>
        <Aside text={`${state}${child.detached ? ", lives on by itself" : ""}`} />
      </div>
    </div>
  );
});

interface LineProps {
  sign: string;
  at: number;
  kind: Note["weight"];
  via?: string;
  children: preact.ComponentChildren;
}

function Line({ sign, at, kind, via = "", children }: LineProps) {
  return (
    <div class={`line ${kind}`}>
      <span class="sign" aria-hidden="true">
        {sign}
      </span>
      <div class="words">{children}</div>
      <time
        class="num"
        dateTime={new Date(at).toISOString()}
        title={via ? `${moment(at)}, by ${shownLine(via, 80)}` : moment(at)}
      >
        {timeOfDay(at)}
      </time>
    </div>
  );
}

/** What a redirect has made of an item, in two lines. */
export function Diff({ before, after }: { before: string; after: string }) {
  return (
    <div class="diff">
      <del>
        <span class="hidden">Before: </span>
        {shownLine(before)}
      </del>
      <ins>
        <span class="hidden">Now: </span>
        {shownLine(after)}
      </ins>
    </div>
  );
}

function Reason({ text }: { text: string }) {
  return text ? <q class="reason">{shownLine(text)}</q> : null;
}

function Aside({ text }: { text: string }) {
  return text ? <span class="aside">{shownLine(text)}</span> : null;
}

const SELF_EVIDENT = new Set(["", "person", "guard", "kill_switch"]);

function who(by: string, source: string): string {
  return SELF_EVIDENT.has(source) ? shownLine(by, 60) : `${shownLine(by, 60)} (${source})`;
}
