"""A run is what its records make it: live, replayed, from any prefix, from any snapshot."""

import hashlib
from typing import Any, cast, get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullcord.core import fold as fold_module
from pullcord.core.events import (
    ChildBorn,
    ChildEnded,
    Claimed,
    Completed,
    Created,
    Event,
    Left,
    Record,
    StepStarted,
    decode_event,
    encode_event,
)
from pullcord.core.fold import replay
from pullcord.core.receipts import receipt
from pullcord.core.run import SNAPSHOT_FORMAT, Run
from pullcord.errors import ChainBroken, FormatUnknown, ImpossibleEvent
from tests.core.histories import apply, histories

pytestmark = pytest.mark.campaign


@given(records=histories())
def test_replay_equals_live(records: list[Record]) -> None:
    live = Run("r1")
    for record in records:
        live = apply(live, record)
    assert replay("r1", records) == live


@given(records=histories())
def test_any_prefix_of_a_journal_loads(records: list[Record]) -> None:
    for end in range(len(records) + 1):
        assert replay("r1", records[:end]).seq == end


@given(records=histories(), data=st.data())
def test_a_snapshot_and_the_rest_equal_the_whole(
    records: list[Record], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(0, len(records)))
    kept = msgspec.msgpack.encode(replay("r1", records[:cut]))
    run = msgspec.msgpack.decode(kept, type=Run)
    for record in records[cut:]:
        run = apply(run, record)
    assert run == replay("r1", records)


@given(records=histories())
def test_apply_leaves_the_run_it_was_given_alone(records: list[Record]) -> None:
    run = replay("r1", records[:-1])
    before = msgspec.msgpack.encode(run)
    apply(run, records[-1])
    assert msgspec.msgpack.encode(run) == before


@given(records=histories())
def test_what_is_stored_is_what_happened(records: list[Record]) -> None:
    for record in records:
        stored = encode_event(record.event)
        assert decode_event(stored, run_id="r1", seq=record.seq) == record.event


@given(records=histories())
def test_the_receipt_has_every_step_exactly_once(records: list[Record]) -> None:
    run = replay("r1", records)
    made = receipt(run)
    headings = (
        made.done, made.undone, made.could_not_undo, made.in_doubt, made.failed, made.interrupted,
        made.under_way, made.still_running,
    )  # fmt: skip
    listed = sorted(name for heading in headings for name in heading)
    assert listed == sorted(step.name for step in run.steps.values() if not step.model)
    assert [line.step for line in made.steps] == list(run.steps)
    if run.cancel:
        assert (made.by, made.asked_at_ms) == (run.cancel.by, run.cancel.asked_at_ms)


@given(records=histories())
def test_when_a_run_has_ended_nothing_is_left_open(records: list[Record]) -> None:
    run = replay("r1", records)
    if run.ended:
        assert not run.open_steps()
        assert all(question.status != "open" for question in run.questions.values())
        assert all(told.status != "queued" for told in run.instructions.values())


def test_a_type_of_a_newer_build_is_refused_by_name() -> None:
    with pytest.raises(FormatUnknown, match=r"type 'teleported'.*newer pullcord"):
        decode_event(b'{"type":"teleported","to":"mars"}', run_id="r1", seq=7)


def test_a_field_of_a_newer_build_is_no_obstacle() -> None:
    event = decode_event(b'{"type":"completed","confetti":true}', run_id="r1", seq=7)
    assert event == Completed()


@pytest.mark.parametrize("payload", [b"", b"[]", b"{}", b'{"type":1}', b'{"type":"claimed"}'])
def test_what_is_not_an_event_is_damage(payload: bytes) -> None:
    with pytest.raises(ChainBroken, match="record 7"):
        decode_event(payload, run_id="r1", seq=7)


def test_records_out_of_place_are_refused() -> None:
    created = Record("r1", 1, 0, 0, Created(agent="churn", thread="t1"))
    run = replay("r1", [created])
    for impossible in (
        Record("r1", 3, 0, 0, Completed()),
        Record("r1", 2, 0, 0, Created(agent="churn", thread="t1")),
        Record("r1", 2, 0, 0, StepStarted(step="s", name="s")),
    ):
        with pytest.raises(ImpossibleEvent):
            apply(run, impossible)
    with pytest.raises(ImpossibleEvent, match="not created yet"):
        replay("r1", [Record("r1", 1, 0, 0, Completed())])


def test_what_a_child_of_an_earlier_version_has_completed_stays_final() -> None:
    """Its end does not say what it left: nobody then could have it undone with its parent."""
    events = (
        Created(agent="churn", thread="t1"),
        Claimed(owner="w", epoch=1),
        *(ChildBorn(child=name) for name in ("earlier", "stopped", "now")),
        ChildEnded(child="earlier", state="completed"),
        ChildEnded(child="stopped", state="cancelled"),
        ChildEnded(child="now", state="completed", left=Left()),
    )
    records = [Record("r1", seq, 0, 0, event) for seq, event in enumerate(events, 1)]
    known = replay("r1", records).children
    assert [known[name].is_provisional for name in known] == [False, True, True]


def test_a_changed_run_needs_a_new_snapshot_format() -> None:
    """The shape of `Run` is part of every stored snapshot. When this fails: raise
    SNAPSHOT_FORMAT in core/run.py and put the new fingerprint here."""
    shape = msgspec.json.encode(_without_prose(msgspec.json.schema(Run)), order="deterministic")
    fingerprint = hashlib.sha256(shape).hexdigest()[:16]
    assert (SNAPSHOT_FORMAT, fingerprint) == (11, "0b96884e50f18f25")


def _without_prose(schema: Any) -> Any:
    if isinstance(schema, dict):
        named = cast("dict[str, Any]", schema).items()
        return {key: _without_prose(value) for key, value in named if key != "description"}
    if isinstance(schema, list):
        return [_without_prose(value) for value in cast("list[Any]", schema)]
    return schema


def test_every_event_means_something_or_is_named_as_silent() -> None:
    silent = {"Created", "Requeued", "Completed", "Remembered", "CallRefused", "StoodStill"}
    silent |= {"GuardTripped", "Forgotten"}  # the last one is all that is left of a run
    means = {kind.__name__ for kind in fold_module._EFFECTS}  # pyright: ignore[reportPrivateUsage]
    assert means | silent == {kind.__name__ for kind in get_args(Event)}
