/** What happened between the steps: who pressed what, who said what, what was asked, who was born. */
import { shown, shownLine } from "../../shown";
import { memo } from "../memo";
import { hrefOf } from "../routes";
import { useStore } from "../store";
import type { Child, Note, Question, Told } from "../view/view";
import { duration, moment, timeOfDay } from "../words";

export const NoteLine = memo(function NoteLine({ note }: { note: Note }) {
  return (
    <Line sign={note.sign} at={note.at} kind={note.weight} via={note.via}>
      {note.by && <b>{shownLine(note.by, 60)} </b>}
      {shownLine(note.says)}
      <Reason text={note.reason} />
      {note.then && <Aside text={[`${note.then} after ${duration(note.took)}`, ...note.how].join("; ")} />}
    </Line>
  );
});

export const ToldLine = memo(function ToldLine({ told }: { told: Told }) {
  return (
    <Line sign="↪" at={told.at} kind="press">
      <b>{shownLine(told.by, 60)}</b>
      <Reason text={told.reason} />
      <Aside text={told.says} />
      <blockquote>{shown(told.text)}</blockquote>
    </Line>
  );
});

export const QuestionLine = memo(function QuestionLine({ question }: { question: Question }) {
  const { kind, status, answer } = question;
  const sign = status === "open" ? "?" : status === "withdrawn" ? "○" : (answer?.sign ?? "✓");
  return (
    <Line sign={sign} at={question.at} kind={kind === "timer" ? "faint" : "press"}>
      {shownLine(question.says, 400)}
      {status === "open" && <Aside text={question.waits} />}
      {status === "withdrawn" && <Aside text={answer?.says ?? status} />}
      {status === "answered" && kind !== "timer" && answer && (
        <div class="answer">
          {answer.by && <b>{shownLine(answer.by, 60)} </b>}
          {shownLine(answer.says)}
          <Reason text={answer.reason ?? ""} />
          <Aside text={`after ${duration(question.settledAt - question.at)}`} />
        </div>
      )}
    </Line>
  );
});

export const ChildLine = memo(function ChildLine({ child }: { child: Child }) {
  const { rows } = useStore();
  const panel = rows.value.get(child.id)?.panel;
  const state = child.state || panel?.label.toLowerCase() || "";
  return (
    <div class="line child">
      <span class="sign" aria-hidden="true">
        {panel?.sign ?? "⤷"}
      </span>
      <div class="words">
        <a href={hrefOf({ at: "run", run: child.id })}>{shownLine(child.says, 80)}</a>
        <Aside text={[state, ...child.facts].filter(Boolean).join(", ")} />
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
