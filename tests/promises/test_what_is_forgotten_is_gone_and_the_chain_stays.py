"""Promise: what was said and done in a forgotten run is nowhere in the store's files any more. That
it ran, and who had it deleted, is; the chain of every run verifies, every other run loads as
before, and nobody can pass a missing payload off as a deletion."""

import random
import re
import sqlite3
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import apsw
import pytest

from pullcord import Context, RunHandle, RunState, Runtime
from pullcord.core.commands import Cancel, Forget, Pause, Redirect, Rename, Resume
from pullcord.core.events import (
    AttentionRaised,
    Cancelled,
    Completed,
    Created,
    Event,
    Failed,
    PlanItem,
    Planned,
    QuestionAsked,
    StepFinished,
    StepStarted,
    TextEnded,
)
from pullcord.core.stops import PayloadsForgotten, decode_entry
from pullcord.core.values import dump
from pullcord.errors import ChainBroken, InvalidInput, RunForgotten
from pullcord.journal.chain import link
from pullcord.journal.evidence.anchor import AnchorFile, anchor_of
from pullcord.journal.evidence.verify import verify
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Claim
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.sqlite.read_only import looking_at
from pullcord.journal.sqlite.schema import MIGRATIONS
from pullcord.journal.stored_runs.retention import Wanted
from pullcord.runtime.runtime import worker_of
from tests.promises.store_files import edit, files_of
from tests.runs.observed_runs import OutsideWorld, runtime_with

LARGE: Final = 1_000  # times a canary: more than is kept in the record itself


def canary(*place: object) -> str:
    """Words that stand nowhere else, and that no compression of a number could make."""
    return "canary-" + sha256(repr(place).encode()).hexdigest()[:24]


class Life:
    """A run that says a canary wherever something can be said."""

    def __init__(self, journal: Journal, run_id: str, *, steps: int = 4) -> None:
        self._journal, self.run_id, self._steps = journal, run_id, steps
        self.words: set[str] = set()
        self._claim: Claim | None = None

    def _word(self, *place: object) -> str:
        word = canary(self.run_id, *place)
        self.words.add(word)
        return word

    async def _add(self, *events: Event) -> None:
        head = await self._journal.head(self.run_id)
        epoch = self._claim.lease.epoch if self._claim else None
        change = Append(run_id=self.run_id, events=events, expected_seq=head.seq, epoch=epoch)
        await self._journal.append(change)

    async def begin(self, thread: str = "") -> None:
        given = dump({"month": self._word("input")})
        born = Created(agent="churn", thread=thread or self.run_id, input=given)
        await self._journal.append(Append(run_id=self.run_id, events=[born], expected_seq=0))
        self._claim = await self._journal.acquire(self.run_id, owner="w1", ttl_s=1000)
        items = (PlanItem("i", self._word("item")),)
        await self._add(Planned(plan="p", items=items))
        await self.is_named("title")
        asked = QuestionAsked(question="q", text=self._word("question"))
        await self._add(asked)

    async def is_named(self, place: str) -> None:
        await self._journal.command(self.run_id, Rename(by="ana", title=self._word(place)))

    async def go_on(self, number: int) -> None:
        assert self._claim
        step, text = f"s{number}", self._word("live", number)
        args, size = self._word("args", number), LARGE if number % 7 == 3 else 1
        await self._add(StepStarted(step=step, name=self._word("step", number), args=dump(args)))
        await self._journal.live_text.say(self._claim.lease, f"p{number}", text, offset=0)
        why, key = self._word("why", number), self._word("key", number)
        told = Redirect(by="ana", reason=why, key=key, instruction=self._word("told", number))
        await self._journal.command(self.run_id, told)
        result = self._word("result", number) * size
        await self._add(StepFinished(step=step, result=dump(result)))
        await self._add(TextEnded(part=f"p{number}", text=text))

    async def end(self) -> None:
        assert self._claim
        await self._add(Completed(result=dump(self._word("end"))))
        await self._journal.release(self._claim.lease)
        await self.is_named("title when it had ended")

    async def cancelled(self) -> None:
        assert self._claim
        await self._add(Cancelled())
        await self._journal.release(self._claim.lease)

    async def live(self) -> "Life":
        await self.begin()
        for number in range(self._steps):
            await self.go_on(number)
        await self.end()
        return self


def found_in(path: Path, words: set[str]) -> set[str]:
    """Those of which the beginning, at least, stands anywhere in the files."""
    seen: set[bytes] = set()
    for data in files_of(path).values():
        seen.update(re.findall(rb"canary-[0-9a-f]{10}", data))
    return {word for word in words if word.encode()[:17] in seen}


# --- nothing of it is left -----------------------------------------------------------------------


@pytest.mark.parametrize("steps", [4, 70], ids=["short", "with snapshots"])
async def test_no_byte_of_a_forgotten_run_is_left_in_the_files(steps: int, tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Journal.open(path) as journal:
        kept = await Life(journal, "kept").live()
        gone = await Life(journal, "gone", steps=steps).live()
        assert found_in(path, gone.words) == gone.words  # or nothing is proven
        ack = await journal.retention.forget("gone", Forget(by="bo", reason="a wish"))
        assert ack.verdict == "applied"
        assert await journal.retention.scrub() == "gone"
        assert found_in(path, gone.words) == set()
        assert found_in(path, kept.words) == kept.words
    assert found_in(path, gone.words) == set()
    assert any(b"a wish" in data for data in files_of(path).values())


async def test_however_runs_have_lain_among_each_other_nothing_of_the_forgotten_is_left(
    tmp_path: Path,
) -> None:
    """Pages are split and joined, rows moved and replaced: no copy is left behind anywhere."""
    seed, path = random.Random(5), tmp_path / "runs.db"
    async with Journal.open(path) as journal:
        lives = [Life(journal, f"r{number}") for number in range(12)]
        todo = [life for life in lives for _ in range(seed.choice([3, 12, 30]))]
        for life in lives:
            await life.begin()
        seed.shuffle(todo)
        for number, life in enumerate(todo):
            await life.go_on(number)
        for life in lives:
            await life.end()
        seed.shuffle(lives)
        gone, kept = lives[:8], lives[8:]
        before = {life.run_id: await journal.load(life.run_id) for life in kept}
        for life in gone:
            assert (await journal.retention.forget(life.run_id, Forget(by="bo"))).holds
        assert await journal.retention.scrub() == "gone"
        words = {word for life in gone for word in life.words}
        assert found_in(path, words) == set()
        for life in kept:
            assert await journal.load(life.run_id) == before[life.run_id]
            assert found_in(path, life.words) == life.words


async def test_the_name_of_a_thread_goes_if_that_is_asked_for(tmp_path: Path) -> None:
    name, path = canary("thread"), tmp_path / "runs.db"
    async with Journal.open(path) as journal:
        for run_id in ("r1", "r2"):
            life = Life(journal, run_id)
            await life.begin(name)
            await life.end()
        await journal.retention.forget("r1", Forget(by="bo", drop_thread_name=True))
        assert [head.run_id for head in await journal.runs(thread=name)] == ["r2"]
        await journal.retention.forget("r2", Forget(by="bo", drop_thread_name=True))
        assert await journal.retention.scrub() == "gone"
        assert found_in(path, {name}) == set()


async def test_whoever_still_reads_what_was_before_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pullcord.journal.sqlite.backend._CUT_S", 0.0)
    path = tmp_path / "runs.db"
    async with Journal.open(path) as journal:
        life = await Life(journal, "r1").live()
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN; SELECT count(*) FROM records").fetchall()
        await journal.retention.forget("r1", Forget(by="bo"))
        assert await journal.retention.scrub() == "held"
        assert (await journal.load("r1")).forgotten  # whatever the files still have
        reader.execute("COMMIT")
        assert await journal.retention.scrub() == "gone"
        assert found_in(path, life.words) == set()
        reader.close()


async def test_what_an_older_version_deleted_goes_too(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    SqliteStore(path, migrations=MIGRATIONS[:4]).close()
    db = sqlite3.connect(path)
    db.execute("PRAGMA secure_delete = 0")
    for number in range(200):
        said = canary("old", number).encode()
        db.execute("INSERT INTO live VALUES (?, 1, 'p', 0, ?, 0)", (number, said))
    db.execute("DELETE FROM live")
    db.commit()
    db.close()
    words = {canary("old", number) for number in range(200)}
    assert found_in(path, words)
    async with Journal.open(path) as journal:
        await Life(journal, "r1").live()
        await journal.retention.forget("r1", Forget(by="bo"))
        assert await journal.retention.scrub() == "gone"
        assert found_in(path, words) == set()


async def test_a_large_store_is_written_anew_only_if_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pullcord.journal.sqlite.backend.REWRITE_MAX_BYTES", 0)
    path = tmp_path / "runs.db"
    async with Journal.open(path) as journal:
        life = await Life(journal, "r1").live()
        await journal.retention.forget("r1", Forget(by="bo"))
        assert await journal.retention.scrub() == "traces"
        assert found_in(path, life.words) == set()  # nothing was split: none is left all the same
    async with Journal.open(path) as journal:
        assert await journal.retention.scrub() == "traces"  # also another process knows
        assert await journal.retention.scrub(rewrite=True) == "gone"
        assert await journal.retention.scrub() == "gone"


# --- and yet nobody can hide anything ------------------------------------------------------------

FORGED: Final = {
    "a payload taken away": "UPDATE records SET payload = NULL, covered = zeroblob(32) "
    "WHERE run = 1 AND seq = 4",
    "a payload taken away, with its digest": "UPDATE records SET payload = NULL, covered = DIGEST "
    "WHERE run = 1 AND seq = 4",
    "all of them taken away": "UPDATE records SET payload = NULL, covered = DIGEST WHERE run = 1",
    "the act taken away": "UPDATE records SET payload = NULL, covered = DIGEST "
    "WHERE run = 2 AND seq = LAST",
    "the act changed": "UPDATE records SET payload = CAST(replace(payload, 'bo', 'al') AS BLOB) "
    "WHERE run = 2 AND seq = LAST",
    "the act cut off": "DELETE FROM records WHERE run = 2 AND seq = LAST",
    "a digest changed": "UPDATE records SET covered = zeroblob(32) WHERE run = 2 AND seq = 3",
    "a digest gone": "UPDATE records SET covered = NULL WHERE run = 2 AND seq = 3",
    "a record gone": "DELETE FROM records WHERE run = 2 AND seq = 3",
    "another payload put in": "UPDATE records SET payload = x'7b7d' WHERE run = 2 AND seq = 3",
    "a time moved": "UPDATE records SET at_ms = at_ms - 1 WHERE run = 2 AND seq = 3",
    "another state": "UPDATE runs SET state = 'failed' WHERE num = 2",
}


@pytest.fixture
async def two_runs(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    async with Journal.open(path) as journal:
        await Life(journal, "whole").live()
        await Life(journal, "gone").live()
        await journal.retention.forget("gone", Forget(by="bo"))
    return path


@pytest.mark.parametrize("name", FORGED)
async def test_what_is_missing_without_the_act_is_damage(name: str, two_runs: Path) -> None:
    run_id = "gone" if "run = 2" in FORGED[name] or "num = 2" in FORGED[name] else "whole"
    async with Journal.open(two_runs) as journal:
        last = (await journal.head(run_id)).seq
        await journal.load(run_id)
    if "DIGEST" in FORGED[name]:  # the true ones: whoever forges can compute them
        _add_digests(two_runs)
    assert edit(two_runs, FORGED[name].replace("LAST", str(last)).replace("DIGEST", "digest")) > 0
    async with Journal.open(two_runs) as journal:
        with pytest.raises(ChainBroken, match="Keep the file as evidence"):
            await journal.load(run_id)
        with pytest.raises(ChainBroken):
            await journal.read(run_id)
        with pytest.raises(ChainBroken):
            await journal.retention.forget(run_id, Forget(by="ana"))
    assert _broken(two_runs)


def _add_digests(path: Path) -> None:
    db = sqlite3.connect(path)
    for pos, payload in db.execute("SELECT pos, payload FROM records").fetchall():
        if payload is not None:
            digest = sha256(payload).digest()
            db.execute("UPDATE records SET digest = ? WHERE pos = ?", (digest, pos))
    db.commit()
    db.close()


@pytest.mark.parametrize("steps", [4, 70], ids=["short", "behind a snapshot"])
async def test_a_changed_payload_is_not_deleted_but_kept_as_evidence(
    steps: int, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    async with Journal.open(path) as journal:
        await Life(journal, "whole", steps=steps).live()
    edit(path, "UPDATE records SET payload = x'7b7d' WHERE seq = 4")
    async with Journal.open(path) as journal:
        with pytest.raises(ChainBroken):
            await journal.retention.forget("whole", Forget(by="ana"))
    db = sqlite3.connect(path)
    assert db.execute("SELECT count(covered) FROM records").fetchone() == (0,)
    db.close()


async def _forge(two_runs: Path) -> None:
    """Whoever can write the file can do what `forget` does, and cannot do it without its record."""
    async with Journal.open(two_runs) as journal:
        head = await journal.head("whole")
    act = b'{"type":"forgotten","by":"eve","agent":"churn","thread":"whole","state":"completed",'
    act += b'"epoch":1,"created_at_ms":1,"ended_at_ms":1}'
    _add_digests(two_runs)
    taken = "UPDATE records SET payload = NULL, covered = digest, digest = NULL WHERE run = 1"
    assert edit(two_runs, taken) > 20
    at_ms, seq = head.updated_at_ms, head.seq + 1
    made = link(head.hash, "whole", seq, at_ms, 0, sha256(act).digest(), 0)
    edit(
        two_runs,
        "INSERT INTO records (run, seq, at_ms, epoch, payload, hash, drift_ms) VALUES "
        f"(1, {seq}, {at_ms}, 0, x'{act.hex()}', x'{made.hex()}', 0)",
    )


async def test_a_payload_deleted_with_a_made_up_act_leaves_that_act(two_runs: Path) -> None:
    await _forge(two_runs)
    async with Journal.open(two_runs) as journal:
        run = await journal.load("whole")
        assert run.forgotten is not None
        assert run.forgotten.by == "eve"


# --- every other run is as it was ----------------------------------------------------------------


@pytest.mark.parametrize("number", range(6))
async def test_after_any_set_of_runs_is_forgotten_every_other_loads_the_same(
    number: int, tmp_path: Path
) -> None:
    seed = random.Random(number)
    path = ":memory:" if number % 2 else tmp_path / "runs.db"
    async with Journal.open(path) as journal:
        runs = await _some_runs(journal, seed)
        before = {run: (await journal.load(run), await journal.read(run)) for run in runs}
        gone: set[str] = set()
        for run_id in seed.sample(runs, k=8):
            ack = await journal.retention.forget(run_id, Forget(by="bo"))
            gone |= {run_id} if ack.verdict == "applied" else set()
            assert ack.holds or ack.reason in ("living", "held", "needed", "attention")
        assert gone
        for run_id in runs:
            run, records = await journal.load(run_id), await journal.read(run_id)
            if run_id in gone:
                assert run.state is before[run_id][0].state
                assert len(records) == 1
            else:
                assert (run, records) == before[run_id]
        living = [run for run in runs if not before[run][0].ended]
        for run_id in living:  # and goes on
            assert (await journal.command(run_id, Cancel(by="ana"))).holds


async def _some_runs(journal: Journal, seed: random.Random) -> list[str]:
    made: list[str] = []
    for number in range(14):
        run_id = f"r{number}"
        source = seed.choice(made) if made and seed.random() < 0.3 else None
        thread = run_id if source else f"t{seed.randrange(5)}"
        born = Created(
            agent="churn", thread=thread, forked_from=source, forked_at=1 if source else 0
        )
        await journal.append(Append(run_id=run_id, events=[born], expected_seq=0))
        made.append(run_id)
        claim = await journal.acquire(run_id, owner="w1", ttl_s=1000)
        if claim is None:  # it stands behind another on its thread
            if seed.random() < 0.7:
                await journal.command(run_id, Cancel(by="ana"))
            continue
        same = TextEnded(part="p", text="the same words " * 2000)
        raised = AttentionRaised(item="i", text="look") if seed.random() < 0.2 else same
        ends: list[list[Event]] = [[Completed()], [Failed(error="boom")], []]
        events = [raised, *seed.choice(ends)]
        epoch = claim.lease.epoch
        change = Append(run_id=run_id, events=events, expected_seq=2, epoch=epoch, release=True)
        await journal.append(change)
    return made


# --- through the door that people use ------------------------------------------------------------


async def _agent(ctx: Context, given: str) -> str:
    return await ctx.step("look", _look, given)


async def _look(given: str) -> str:
    return f"{given} {canary('found', given)}"


async def _ended(runtime: Runtime, given: str, **more: Any) -> RunHandle:
    run = await runtime.start("agent", given, **more)
    await run.result()
    await worker_of(runtime).let_go(run.id)
    return run


async def test_without_yes_nothing_is_deleted_and_all_is_told() -> None:
    async with runtime_with(agent=_agent) as runtime:
        run = await _ended(runtime, "May")
        before = await runtime.journal.read(run.id)
        said = await runtime.forget(run.id)
        assert (said.is_done, said.files) == (False, "")
        [one] = said.gone
        assert (one.run, one.records, one.kept) == (run.id, len(before), "")
        assert one.bytes > 0
        assert await runtime.journal.read(run.id) == before


async def test_a_person_s_runs_are_found_by_their_name_and_thread() -> None:
    async with runtime_with(agent=_agent) as runtime:
        mine = await _ended(runtime, "May", by="ana")
        talk = await _ended(runtime, "June", by="bo", thread="talk")
        other = await _ended(runtime, "July", by="bo")
        assert [one.run for one in (await runtime.forget(of="ana")).gone] == [mine.id]
        assert [one.run for one in (await runtime.forget(thread="talk")).gone] == [talk.id]
        assert [one.run for one in (await runtime.forget(of="bo", thread="talk")).gone] == [talk.id]
        assert (await runtime.forget(of="bo", older_than_s=3600)).runs == ()
        made = await runtime.forget(of="bo", yes=True, by="ana", reason="asked to")
        assert {one.run for one in made.gone} == {talk.id, other.id}
        assert made.files == "gone"
        assert (await talk.snapshot()).forgotten
        assert not (await mine.snapshot()).forgotten


@pytest.mark.parametrize(
    ("runs", "more"),
    [((), {}), (("r1",), {"of": "ana"}), ((), {"of": "ana", "states": [RunState.RUNNING]})],
)
async def test_what_cannot_be_meant_is_refused(runs: tuple[str, ...], more: Any) -> None:
    async with runtime_with(agent=_agent) as runtime:
        with pytest.raises(InvalidInput, match="Nothing was deleted"):
            await runtime.forget(*runs, yes=True, **more)


async def test_what_would_go_on_from_it_is_refused_and_says_who_deleted_it() -> None:
    async with runtime_with(agent=_agent) as runtime:
        run = await _ended(runtime, "May", thread="talk")
        fork = await run.fork()
        await fork.result()
        await worker_of(runtime).let_go(fork.id)
        assert (await run.forget(by="ana", reason="her wish")).verdict == "applied"
        told = "payloads were deleted on .* by ana: her wish"
        for going_on in (run.fork, run.result, run.receipt, fork.fork):
            with pytest.raises(RunForgotten, match=told):
                await going_on()
        for command in (Resume(by="bo"), Pause(by="bo"), Cancel(by="bo")):
            ack = await runtime.journal.command(run.id, command)
            assert (ack.verdict, ack.reason) == ("rejected", "forgotten")
            assert "deleted on" in ack.message
        assert await fork.result()  # it has its own
        assert (await run.forget(by="bo")).verdict == "already"


async def test_the_next_run_on_the_thread_finds_that_a_turn_was_deleted() -> None:
    world, found = OutsideWorld(), list[Any]()

    async def talks(ctx: Context, given: str) -> str:
        found.append(await ctx.history())
        return given

    async with runtime_with(agent=_agent, talks=talks) as runtime:
        first = await _ended(runtime, "May", thread="talk")
        await first.forget(by="ana", reason="her wish")
        run = await runtime.start("talks", "June", thread="talk")
        await run.result()
    [[turn]] = found
    assert (turn.run_id, turn.state, turn.input, turn.result) == (first.id, "completed", None, None)
    assert turn.forgotten.startswith("Its payloads were deleted on")
    assert world.did == []


async def test_children_go_with_the_run_that_they_worked_for(tmp_path: Path) -> None:
    async def parent(ctx: Context, given: str) -> str:
        child = await ctx.spawn("agent", given)
        return await child.result()

    path = tmp_path / "runs.db"
    async with runtime_with(path, agent=_agent, parent=parent) as runtime:
        run = await runtime.start("parent", "May")
        await run.result()
        await worker_of(runtime).let_go(run.id)
        [child] = (await run.snapshot()).children
        made = await runtime.forget(run.id, yes=True)
        assert {one.run for one in made.gone} == {run.id, child}
        assert found_in(path, {canary("found", "May")}) == set()


async def test_what_is_quarantined_is_evidence_until_somebody_names_it() -> None:
    async def asks(ctx: Context) -> str:
        return await ctx.ask("sure?")

    async with runtime_with(asks=asks) as runtime:
        run = await runtime.start("asks", run_id="leak")
        await run.wait_for(RunState.WAITING)
        await run.cancel(by="guard", quarantine=True)
        await run.wait_for(RunState.CANCELLED)
        await worker_of(runtime).let_go(run.id)
        [kept] = (await runtime.forget(older_than_s=0, yes=True)).kept
        assert "evidence" in kept.kept
        [gone] = (await runtime.forget(run.id, yes=True)).gone
        assert gone.run == "leak"


# --- and the stop log knows --------------------------------------------------------------------


async def test_the_stop_log_names_the_act_and_forgets_what_it_said_of_the_run(
    tmp_path: Path,
) -> None:
    path, why = tmp_path / "runs.db", canary("why")
    async with Journal.open(path) as journal:
        kept = await Life(journal, "kept").live()
        life = Life(journal, "gone")
        await life.begin()
        await journal.command("gone", Cancel(by="ana", reason=why, undo=False))
        [asked] = await journal.stop_log.rows(run="gone")
        assert asked.payload is not None
        assert why.encode() in asked.payload
        await life.cancelled()
        await journal.retention.forget("gone", Forget(by="bo", reason="a wish"))
        assert await journal.retention.scrub() == "gone"
        *before, last = await journal.stop_log.rows(run="gone")
        assert before
        assert all(row.payload is None for row in before)
        assert last.payload is not None
        entry = decode_entry(last.payload)
        assert isinstance(entry.act, PayloadsForgotten)
        assert (entry.act.by, entry.act.runs, entry.act.records > 3) == ("bo", ("gone",), True)
        assert entry.hash == (await journal.head("gone")).hash.hex()
        assert found_in(path, {why, *life.words}) == set()
        assert kept.words
    assert _broken(path) == []


async def test_an_act_that_is_not_in_the_stop_log_is_found_by_whoever_verifies(
    two_runs: Path,
) -> None:
    assert _broken(two_runs) == []
    await _forge(two_runs)
    async with Journal.open(two_runs) as journal:
        assert (await journal.load("whole")).forgotten
    [found] = _broken(two_runs)
    assert "no entry of the log says that it was deleted" in found


def _broken(path: Path) -> list[str]:
    with looking_at(path) as view:
        return [found.why for found in verify(view, AnchorFile(anchor_of(path))).broken]


async def test_a_look_at_what_is_meant_changes_nothing(two_runs: Path) -> None:
    async with Journal.open(two_runs) as journal:
        before = await journal.runs()
        [one] = await journal.retention.forgettable(Wanted(ended_before_ms=2**60))
        assert one.run == "whole"  # the other is forgotten already
        assert await journal.runs() == before
