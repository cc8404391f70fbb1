"""L1 to L6, checked on what really happened. Knows only records, never the code under test."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from pullcord.core.acks import Ack
from pullcord.core.commands import Cancel
from pullcord.core.events import (
    TAGS,
    Answered,
    AttentionRaised,
    AttentionSettled,
    Cancelled,
    CancelRequested,
    ChildBorn,
    ChildEnded,
    Claimed,
    Completed,
    Created,
    DoubtSettled,
    Failed,
    Hurried,
    InstructionSettled,
    ItemRewritten,
    LateResult,
    PauseRequested,
    QuestionAsked,
    Record,
    Redirected,
    Resumed,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    StepUndone,
    UndoFailed,
    decode_event,
)
from pullcord.core.states import TABLE, RunState
from pullcord.core.stops import decode_entry
from pullcord.journal.store import Store
from pullcord.journal.stored_runs.run_records import ALL
from tests.races.scheduled_journals import OWNER, TTL_S, Asked, ScheduledJournals

DECISIONS = (StepFinished, StepFailed, StepInterrupted, StepInDoubt)
ENDS = (Completed, Failed, Cancelled)
EVIDENCE = (LateResult, AttentionRaised, AttentionSettled, StepUndone, UndoFailed, Spent)
CONTROLS = (
    *(PauseRequested, Resumed, Redirected, CancelRequested, Hurried, Answered, ChildEnded),
    *(DoubtSettled, ItemRewritten),
)
STARTS = (StepStarted, QuestionAsked, ChildBorn, Completed)


def violations(scheduled: ScheduledJournals) -> list[str]:
    """Every law that this history breaks, in words."""
    journals = journals_of(scheduled.store)
    found = record_laws(journals) + stop_laws(scheduled.store, journals)
    for law in (_l2, _l3, _l4_effects, _l5, _claims):
        found += law(scheduled, journals)
    return found


def record_laws(journals: dict[str, list[Record]]) -> list[str]:
    """The laws that can be judged from records alone."""
    found = [
        f"{run_id}: {broken}"
        for run_id, records in journals.items()
        for law in (_l1, _l4_records, _l6, _epochs, _instructions)
        for broken in law(records)
    ]
    return [*found, *_spans(journals)]


ASKED = ("pause_requested", "cancel_requested", "limit_reached", "requeued")
HELD = (RunState.PAUSED, RunState.STOPPED, RunState.CANCELLED)


def stop_laws(store: Store, journals: dict[str, list[Record]]) -> list[str]:
    """Every stop is in the stop log, once, with its record; and so is that it took hold."""
    rows = store.read(lambda view: view.stops(after=0, limit=ALL))
    told: Counter[tuple[str, int, str]] = Counter()
    for row in rows:
        if row.payload is None:
            continue  # its run is forgotten
        entry = decode_entry(row.payload)
        what = entry.act.__struct_config__.tag
        if what in ("asked", "in_effect"):
            told[entry.run, entry.seq, str(what)] += 1
    happened: Counter[tuple[str, int, str]] = Counter()
    for run_id, records in journals.items():
        state = RunState.QUEUED
        for record in records[1:]:
            tag = TAGS[type(record.event)]
            if (after := TABLE[state].on.get(tag)) is None:
                break  # impossible: the laws of records say so
            holds = (after is not state and after in HELD) or tag == "requeued"
            happened[run_id, record.seq, "asked"] += tag in ASKED
            happened[run_id, record.seq, "in_effect"] += holds
            state = after
    wrong = (told - happened) + (happened - told)
    return [f"the stop log is wrong about {what} of record {n} of {run}" for run, n, what in wrong]


def journals_of(store: Store) -> dict[str, list[Record]]:
    """Every record in the store, decoded without the checks that the journal itself makes."""

    def read(run_id: str) -> list[Record]:
        rows = store.read(lambda view: view.rows(run_id, after_seq=0, limit=ALL))
        return [
            Record(run_id, r.seq, r.at_ms, r.epoch, decode_event(r.payload, run_id=run_id, seq=0))
            for r in rows
            if r.payload is not None
        ]

    heads = store.read(
        lambda view: view.heads(states=RunState, thread=None, before=None, limit=ALL)
    )
    return {head.run_id: read(head.run_id) for head in heads}


def _l1(records: list[Record]) -> Iterator[str]:
    """One decision per attempt of a step, and one end per run."""
    attempts: Counter[str] = Counter()
    decided: Counter[tuple[str, int]] = Counter()
    for record in records:
        match record.event:
            case StepStarted(step=step):
                attempts[step] += 1
            case (
                StepFinished(step=step)
                | StepFailed(step=step)
                | StepInterrupted(step=step)
                | StepInDoubt(step=step)
            ):
                decided[step, attempts[step]] += 1
            case _:
                pass
    for (step, attempt), times in decided.items():
        if times > 1 or attempt == 0:
            yield f"L1: attempt {attempt} of {step} was decided {times} times"
    ends = [record for record in records if isinstance(record.event, ENDS)]
    if ends and not all(isinstance(r.event, EVIDENCE) for r in records[ends[0].seq :]):
        yield f"L1: it ended with {ends[0].event}, and went on"
    if ends and sum(attempts.values()) != sum(decided.values()):
        yield "L1: it ended with a step undecided"


def _l2(scheduled: ScheduledJournals, journals: dict[str, list[Record]]) -> Iterator[str]:
    """An answer is durable, names the record it speaks of, and is the same for the same key."""
    by_key: dict[tuple[str, str], Ack] = {}
    for asked in scheduled.controls:
        if asked.ack is None:
            continue
        records = journals[asked.run_id]
        if not 1 <= asked.ack.seq <= len(records):
            yield f"L2: {asked.command.verb} was answered with record {asked.ack.seq}, which is not"
            continue
        named = records[asked.ack.seq - 1].event
        if asked.ack.verdict == "applied":
            if not isinstance(named, CONTROLS) or getattr(named, "by", "") != asked.command.by:
                yield f"L2: {asked.command.verb} was applied, but record {asked.ack.seq} is {named}"
        elif asked.ack.verdict == "too_late" and not isinstance(
            named, (*ENDS, CancelRequested, Answered, Redirected)
        ):
            yield f"L2: {asked.command.verb} came too late for {named}, which decides nothing"
        key = asked.command.key
        if key and not _same(by_key.setdefault((asked.run_id, key), asked.ack), asked.ack):
            yield f"L2: key {key} was answered {asked.ack} after {by_key[asked.run_id, key]}"


def _same(one: Ack, other: Ack) -> bool:
    """The same answer. A stop that had not yet taken hold may have, when the answer was given."""
    came = ({RunState.PAUSING, RunState.PAUSED}, {RunState.CANCELLING, RunState.CANCELLED})
    if one.state is not other.state and {one.state, other.state} not in came:
        return False
    return msgspec.structs.replace(one, state=other.state) == other


def _l3(scheduled: ScheduledJournals, journals: dict[str, list[Record]]) -> Iterator[str]:
    """Who asks after an answer comes after it; who looks after an answer sees it."""
    keys: set[str] = set()
    answered: list[Asked] = []
    for asked in scheduled.controls:
        again = asked.command.key is not None and asked.command.key in keys
        if (
            asked.ack and asked.ack.verdict == "applied" and not again
        ):  # sent again: answered before
            answered.append(asked)
        keys.add(asked.command.key or "")
    for first in answered:
        for second in answered:
            if (
                first.ack
                and second.ack
                and first.run_id == second.run_id
                and first.told_at < second.at
                and first.ack.seq >= second.ack.seq
            ):
                yield f"L3: {second.command.verb} was asked after an answer but stands before it"
        for look in scheduled.looks:
            if look.run_id == first.run_id and first.told_at < look.at:
                assert first.ack is not None
                if len(look.seen) < first.ack.seq:
                    yield f"L3: a look after {first.command.verb} was answered did not see it"
    for look in scheduled.looks:
        if look.seen != journals[look.run_id][: len(look.seen)]:
            yield "L3: a look saw what is not in the journal"


def _l4_records(records: list[Record]) -> Iterator[str]:
    cancelled = False
    for record in records:
        if cancelled and isinstance(record.event, STARTS):
            yield f"L4: {type(record.event).__name__} stands behind a cancel"
        cancelled = cancelled or isinstance(record.event, CancelRequested)


def _l4_effects(scheduled: ScheduledJournals, journals: dict[str, list[Record]]) -> Iterator[str]:
    """Nothing happens in the world without its intent, once per intent; no text after a cancel."""
    done: Counter[tuple[str, str]] = Counter()
    for effect in scheduled.effects:
        done[effect.run_id, effect.step] += 1
    for (run_id, step), times in done.items():
        intents = sum(
            isinstance(record.event, StepStarted) and record.event.step == step
            for record in journals[run_id]
        )
        if times > intents:
            yield f"L4: {step} was done {times} times with {intents} intents"
    for said in scheduled.said:
        for asked in scheduled.controls:
            if (
                said.fate != "refused"
                and isinstance(asked.command, Cancel)
                and asked.run_id == said.run_id
                and asked.ack
                and asked.ack.verdict == "applied"
                and asked.told_at < said.at
            ):
                yield "L4: text was accepted after a cancel was answered"


def _l5(scheduled: ScheduledJournals, journals: dict[str, list[Record]]) -> Iterator[str]:
    """What happened and was reported is in the records, as a result or as late evidence."""
    for effect in scheduled.effects:
        if effect.reported and not any(
            isinstance(record.event, StepFinished | LateResult) and record.event.step == effect.step
            for record in journals[effect.run_id]
        ):
            yield f"L5: {effect.step} happened and was reported, and no record says so"


def _l6(records: list[Record]) -> Iterator[str]:
    """A control sent twice with one key is in the journal once."""
    seen: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if key := getattr(record.event, "key", None):
            seen[key].append(record)
    for key, same in seen.items():
        kinds = [type(record.event) for record in same]
        if len(set(kinds)) != len(kinds):
            yield f"L6: key {key} was carried out {len(same)} times"


def _epochs(records: list[Record]) -> Iterator[str]:
    """Only the present owner writes; a cancel that finds nothing to stop ends the run itself."""
    epoch = 0
    for before, record in pairwise([None, *records]):
        assert record is not None
        at_rest = isinstance(record.event, Cancelled) and record.epoch == 0
        by_control = before is not None and isinstance(before.event, CancelRequested)
        if isinstance(record.event, Claimed):
            if record.event.epoch != epoch + 1:
                yield f"P11: epoch {record.event.epoch} follows {epoch}"
            epoch = record.event.epoch
        elif isinstance(record.event, (*CONTROLS, Created)) or (at_rest and by_control):
            continue
        elif record.epoch != epoch:
            named = type(record.event).__name__
            yield f"P11: {named} of epoch {record.epoch} was accepted in epoch {epoch}"


def _instructions(records: list[Record]) -> Iterator[str]:
    settled: Counter[int] = Counter(
        record.event.instruction
        for record in records
        if isinstance(record.event, InstructionSettled)
    )
    if any(times > 1 for times in settled.values()):
        yield "an instruction was delivered twice"
    if list(settled) != sorted(settled):
        yield "instructions were delivered out of order"


def _spans(journals: dict[str, list[Record]]) -> Iterator[str]:
    """A child is born in its parent's journal and in its own, or in neither."""
    born = {
        record.event.child: run_id
        for run_id, records in journals.items()
        for record in records
        if isinstance(record.event, ChildBorn)
    }
    made = {
        run_id: records[0].event.parent
        for run_id, records in journals.items()
        if records and isinstance(records[0].event, Created) and records[0].event.parent
    }
    if born != made:
        yield f"spans: parents know {born}, and children know {made}"


def _claims(scheduled: ScheduledJournals, journals: dict[str, list[Record]]) -> Iterator[str]:
    """A run that is held is not taken: only after it was given back, or its lease has lapsed."""
    for run_id, records in journals.items():
        claims = [record for record in records if isinstance(record.event, Claimed)]
        for before, after in pairwise(claims):
            if isinstance(after.event, Claimed) and after.event.same_owner:
                continue  # its holder may claim it again
            lapsed = after.at_ms - before.at_ms >= TTL_S * 1000
            given_back = (run_id, before.epoch) in scheduled.given_back
            if isinstance(before.event, Claimed) and before.event.owner != OWNER:  # only to rest
                given_back = after.seq > before.seq + 1  # it rests, or somebody resumed it first
            if not lapsed and not given_back:
                yield f"P11: epoch {after.epoch} was claimed while {before.epoch} held the run"
