"""Thirty shapes of secrets through every door: no journal, stream, receipt or log has one of them,
in any form, and those who are called get the real thing."""

import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, RunFailed, RunState, StepError, Timing
from pullcord.core.commands import Redirect
from pullcord.core.events import Created, QuestionAsked, StepStarted, TextEnded
from pullcord.core.text.sealing import ERROR_CHARS
from pullcord.core.text.secrets import Secrets
from pullcord.core.values import dump, load
from pullcord.errors import InvalidId, InvalidInput
from pullcord.hooks import Notice
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Order
from pullcord.runtime.watching.log_redaction import LOGGERS, Redacted
from tests.runs.observed_runs import happened, question
from tests.secrets import doors
from tests.secrets.eyes import HIDDEN, KNOWN, Everything, vault
from tests.secrets.vault import ALL, LOOSE, SECRETS, files_of, found_in


async def pieces(text: str, size: int = 3) -> AsyncIterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]


NESTED: Any = {"deep": [{"list": ALL, LOOSE: "a key"}], "card": int(SECRETS["digits"]), "n": 1.5}


async def test_through_every_door_of_a_function(
    everything: Everything, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    got: list[Any] = []
    told: dict[str, Any] = {}
    path = str(tmp_path / "received")

    async def receive(*given: Any) -> Any:
        got.append(given)
        return {"echo": given}

    async def refuse(given: str) -> None:
        raise PermissionError(f"{given} is not welcome")

    async def release(given: str) -> None:
        got.append(("released", given))

    async def child(ctx: Context, given: Any) -> Any:
        return await ctx.step("in the child", receive, given)

    async def courier(ctx: Context, given: Any) -> Any:
        told["input"] = given
        told["step"] = await ctx.step(f"take {LOOSE[:300]}", receive, NESTED, LOOSE)
        told["again"] = await ctx.step("use", receive, told["step"], key=SECRETS["pay_key"])
        with pytest.raises(StepError) as failed:
            await ctx.step("refuse", refuse, LOOSE)
        told["error"] = str(failed.value)
        for tool in (doors.in_loop, doors.in_thread, doors.in_process):
            told["tool"] = await ctx.tool(tool, path, LOOSE)
        with pytest.raises(StepError):
            await ctx.tool(doors.fails_in_process, path, LOOSE)
        await ctx.defer(release, HIDDEN)
        told["said"] = await ctx.say(f"Here: {LOOSE}")
        told["streamed"] = await ctx.say(pieces(LOOSE))
        async for item in ctx.plan([f"do {SECRETS['basic']}"]):
            told["plan"] = item.title
        branch = ctx.branch(SECRETS["quotes"])
        await branch.step("aside", receive, SECRETS["emoji"])
        told["child"] = await (await ctx.spawn("child", NESTED)).result()
        told["answer"] = await ctx.ask(f"Is it {LOOSE}?", details=NESTED)
        return {"result": LOOSE}

    async with vault(everything.path, agents={"courier": courier, "child": child}) as runtime:
        run = await runtime.start("courier", NESTED, by=SECRETS["spaces"])
        everything.listen(run)
        asked = await question(run)
        await run.pause(by=SECRETS["basic"], reason=LOOSE, key=SECRETS["hub_token"])
        await run.wait_for(RunState.PAUSED)
        assert found_in(*files_of(everything.path)) == []  # also in the midst of it
        await run.resume(by="ana")
        again = await run.answer(asked, LOOSE, key=SECRETS["jwt"])
        assert again == await run.answer(asked, LOOSE, key=SECRETS["jwt"])
        result = await run.result()
        assert await everything.of(runtime, run) == []
        log = everything._log.records  # pyright: ignore[reportPrivateUsage]
        ours = [r for r in log if r.name.startswith("pullcord")]
        # (A slow machine may be said to hold the loop.)
        assert [r for r in ours if "blocked_loop" not in r.pathname] == []
        [born] = await happened(runtime, run.id, Created)
        assert born.by == "{{secret:spaces}}"
    assert found_in(*files_of(everything.path), *capfd.readouterr()) == []
    for verb in (["show", run.id, "--records"], ["ps", "--all"]):
        look = [sys.executable, "-m", "pullcord", *verb, "--store", str(everything.path)]
        done = subprocess.run(look, capture_output=True, check=True)  # noqa: ASYNC221 (it is over)
        assert run.id.encode() in done.stdout
        assert found_in(done.stdout, done.stderr) == []

    # Who is called gets the real thing, also if it was told the reference before.
    as_stored = {"deep": [{"list": ALL, LOOSE: "a key"}], "card": int(SECRETS["digits"]), "n": 1.5}
    assert got[0] == (as_stored, LOOSE)
    assert got[1] == ({"echo": [as_stored, LOOSE]},)
    assert (SECRETS["emoji"],) in got
    assert got[-1] == ("released", LOOSE)
    assert {where: set(map(str, values)) for where, values in doors.received(path).items()} == {
        where: {LOOSE} for where in ("loop", "thread", "process", "fails")
    }
    # Its agent is told references, the same in this life as in any other.
    assert found_in(told) == []
    assert told["input"] == load(KNOWN.seal_json(dump(NESTED)))
    assert told["streamed"] == told["tool"]["echo"] == told["answer"] == HIDDEN
    assert result == {"result": HIDDEN}


async def test_through_a_command(everything: Everything) -> None:
    shown = "import os,sys; sys.stdout.write(os.environ['KEYS']+sys.stdin.read())"
    shown += "; sys.stderr.write(sys.argv[1]); sys.exit(sys.argv[1] != os.environ['KEYS'])"
    told: dict[str, Any] = {}

    async def courier(ctx: Context) -> Any:
        argv = ["python3", "-c", shown, LOOSE]
        told["done"] = await ctx.exec(*argv, env={"KEYS": LOOSE}, input=LOOSE)
        told["named"] = await ctx.exec("python3", "-c", shown, HIDDEN, env={"KEYS": HIDDEN})
        with pytest.raises(StepError) as failed:
            await ctx.exec(f"/nowhere/{SECRETS['least']}")
        told["error"] = failed.value

    async with vault(everything.path, agents={"courier": courier}) as runtime:
        run = await runtime.start("courier")
        everything.listen(run)
        await run.result()
        assert await everything.of(runtime, run) == []
        texts = [e for e in await happened(runtime, run.id, TextEnded) if e.step]
        assert len(texts) == 2
    assert (told["done"].stdout, told["done"].stderr) == (HIDDEN * 2, HIDDEN)
    assert told["done"].ok
    assert told["named"].ok  # it was handed the values
    assert found_in(*files_of(everything.path), told) == []


async def test_through_an_approval(everything: Everything, tmp_path: Path) -> None:
    path, notices = str(tmp_path / "received"), list[Notice]()

    async def courier(ctx: Context) -> Any:
        return await ctx.tool(doors.approved, path, LOOSE)

    async with vault(
        everything.path, agents={"courier": courier}, notify=notices.append
    ) as runtime:
        run = await runtime.start("courier")
        everything.listen(run)
        first = await question(run)
        await run.edit(first, {"given": [LOOSE, "edited"]}, by="ana", reason=LOOSE)
        second = await question(run, nth=2)
        await run.approve(second, by="ana")
        assert await run.result() == [HIDDEN, "edited"]
        assert await everything.of(runtime, run) == []
        cards = await happened(runtime, run.id, QuestionAsked)
        intent = (await happened(runtime, run.id, StepStarted))[0]
        assert intent.call == cards[1].call
    assert found_in(notices) == []
    assert notices[0].args == {"path": path, "given": HIDDEN}
    real = [LOOSE, "edited"]
    assert doors.received(path) == {"still_valid": [real], "approved": [real]}


async def test_through_a_cancel_and_its_undo(everything: Everything, tmp_path: Path) -> None:
    path = str(tmp_path / "received")

    async def courier(ctx: Context) -> None:
        await ctx.tool(doors.undoable, path, LOOSE)
        await ctx.ask("And now?")

    async with vault(everything.path, agents={"courier": courier}) as runtime:
        run = await runtime.start("courier")
        everything.listen(run)
        await question(run)
        await run.redirect(f"rather {LOOSE}", by="ana")
        await run.cancel(by="ana", reason=LOOSE)
        await run.wait_for(RunState.CANCELLED)
        assert await everything.of(runtime, run) == []
    assert doors.received(path) == {"undoable": [LOOSE], "undo": [[LOOSE, {"made": LOOSE}]]}


async def test_through_an_error_and_its_traceback_in_the_log(
    everything: Everything, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    async def courier(_ctx: Context) -> None:
        try:
            raise ConnectionError(LOOSE)
        except ConnectionError as error:
            raise RuntimeError(SECRETS["pem"]) from error

    def hook(_notice: Notice) -> None:
        raise LookupError(LOOSE)

    async def asks(ctx: Context) -> Any:
        return await ctx.tool(doors.approved, "/dev/null", "x")

    agents = {"courier": courier, "asks": asks}
    async with vault(everything.path, agents=agents, notify=hook) as runtime:
        run = await runtime.start("courier")
        everything.listen(run)
        with pytest.raises(RunFailed) as failed:
            await run.result()
        assert await everything.of(runtime, run) == []
        other = await runtime.start("asks")
        await question(other)
        await other.cancel(by="ana")
        await other.wait_for(RunState.CANCELLED)
    assert found_in(str(failed.value), caplog.text, *capfd.readouterr()) == []
    assert "{{secret:pem" in caplog.text
    assert "A notification hook failed." in caplog.text
    assert [record for record in caplog.records if record.exc_text and not record.exc_info]


@pytest.mark.parametrize("where", ["step", "process", "agent"])
async def test_an_error_that_is_cut_off_in_the_middle_of_a_secret(
    tmp_path: Path, where: str
) -> None:
    half = "x" * (ERROR_CHARS - 100) + SECRETS["long"]

    async def refuse() -> None:
        raise ValueError(half)

    async def courier(ctx: Context) -> None:
        if where == "agent":
            await refuse()
        if where == "process":
            work = ctx.tool(doors.fails_in_process, "/dev/null", half)
        else:
            work = ctx.step("refuse", refuse)
        with pytest.raises(StepError) as failed:
            await work
        assert SECRETS["long"][:4] not in str(failed.value)

    async with vault(tmp_path / "store.db", agents={"courier": courier}) as runtime:
        run = await runtime.start("courier")
        await run.wait_for(RunState.FAILED if where == "agent" else RunState.COMPLETED)
        records = repr(await runtime.journal.read(run.id))
        assert "xxx…" in records
        assert "……" not in records
    assert SECRETS["long"][:8] not in records


def test_every_logger_of_ours_is_watched_and_let_go() -> None:
    source = Path(pullcord.__file__).parent
    for module in source.rglob("*.py"):
        for name in module.read_text().split("getLogger(")[1:]:
            assert name.startswith("name") or name.split('"')[1] in LOGGERS
    watch = Redacted(KNOWN)
    watch.install()
    assert all(watch in logging.getLogger(name).filters for name in LOGGERS)
    watch.remove()
    Redacted(Secrets()).install()
    assert not any(logging.getLogger(name).filters for name in LOGGERS)


async def test_an_id_with_a_secret_in_it_is_refused(tmp_path: Path) -> None:
    async def nothing(_ctx: Context) -> None: ...

    async with vault(tmp_path / "store.db", agents={"agent": nothing}) as runtime:
        odd_ones: list[dict[str, Any]] = [{"run_id": SECRETS["least"]}, {"thread": SECRETS["uuid"]}]
        for odd in odd_ones:
            with pytest.raises(InvalidId) as refused:
                await runtime.start("agent", **odd)
            assert found_in(str(refused.value)) == []
        assert await runtime.list() == []
    assert found_in(*files_of(tmp_path / "store.db")) == []


@pytest.mark.parametrize("wrong", [{"k": "short"}, {"a b": "long enough"}])
def test_a_store_is_not_even_opened_with_secrets_that_cannot_be(
    tmp_path: Path, wrong: dict[str, str]
) -> None:
    with pytest.raises(InvalidInput):
        pullcord.open(tmp_path / "store.db", secrets=wrong)
    with pytest.raises(InvalidInput, match="known are private-key"):
        pullcord.open(tmp_path / "store.db", redact=["everything"])
    assert list(tmp_path.iterdir()) == []


async def test_a_runtime_that_was_not_given_a_secret_does_not_make_the_call(
    tmp_path: Path,
) -> None:
    path = str(tmp_path / "received")
    told: list[str] = []

    async def courier(ctx: Context) -> None:
        for door in (
            ctx.tool(doors.in_loop, path, "{{secret:other}}"),
            ctx.step("s", doors.in_loop.function, path, "{{secret:other}}"),
        ):
            with pytest.raises(StepError) as failed:
                await door
            told.append(str(failed.value))

    for secrets in (SECRETS, None):
        async with vault(":memory:", agents={"courier": courier}, secrets=secrets) as runtime:
            await (await runtime.start("courier")).result()
    assert len(told) == 4
    assert all("'other'" in said and "not given it" in said for said in told)
    assert not Path(path).exists()


async def test_a_secret_of_one_tool_is_not_given_to_another(tmp_path: Path) -> None:
    path = str(tmp_path / "received")
    only = {"key": {"value": SECRETS["pay_key"], "tools": ["in_loop"]}}

    async def courier(ctx: Context) -> None:
        await ctx.tool(doors.in_loop, path, "{{secret:key}}")
        with pytest.raises(StepError, match="other tools only"):
            await ctx.tool(doors.in_thread, path, "{{secret:key}}")

    async with vault(":memory:", agents={"courier": courier}, secrets=only) as runtime:
        await (await runtime.start("courier")).result()
    assert doors.received(path) == {"loop": [SECRETS["pay_key"]]}


async def test_a_new_value_of_a_secret_is_used_from_then_on(tmp_path: Path) -> None:
    """A reference is resolved when it is needed: a run that waits survives a rotation; and what was
    done with the old value is not done again with the new one."""
    store, path = tmp_path / "store.db", str(tmp_path / "received")
    environment = {"KEY": SECRETS["pay_key"]}

    async def courier(ctx: Context, given: str) -> None:
        await ctx.tool(doors.in_loop, path, environment["KEY"])
        await ctx.ask("Go on?")
        await ctx.tool(doors.in_loop, path, given)

    agents = {"courier": courier}
    old, new = SECRETS["pay_key"], SECRETS["pay_key_too"]
    async with vault(store, agents=agents, secrets={"key": old}) as runtime:
        run = await runtime.start("courier", old, run_id="r1")
        await question(run)
    environment["KEY"] = new
    async with vault(store, agents=agents, secrets={"key": new}) as runtime:
        run = await runtime.get("r1")
        await run.answer(await question(run), "yes")
        await run.result()
    assert doors.received(path) == {"loop": [old, new]}
    assert found_in(*files_of(store)) == []


async def test_what_looks_like_a_credential_is_hidden_everywhere_if_that_is_wanted(
    everything: Everything, tmp_path: Path
) -> None:
    token = "ghp_" + "a1B2" * 9
    path = str(tmp_path / "received")

    async def courier(ctx: Context, given: str) -> Any:
        assert token not in given
        await ctx.say(pieces(f"the token is {token}, they say"))
        await ctx.tool(doors.in_process, path, f"password={token}")
        return token

    async with vault(
        everything.path, agents={"courier": courier}, secrets=None, redact=True
    ) as runtime:
        run = await runtime.start("courier", f"use {token}")
        everything.listen(run)
        assert await run.result() == "[redacted github-token]"
        await everything.of(runtime, run)
        said = next(e for e in await happened(runtime, run.id, TextEnded) if not e.step)
        assert said.text == "the token is [redacted github-token], they say"
    assert token.encode() not in b"".join(file.read_bytes() for file in files_of(everything.path))
    assert doors.received(path) == {"process": [f"password={token}"]}


async def test_a_long_silence_of_a_stream_is_not_caused_by_secrets(tmp_path: Path) -> None:
    """What is held back is at most what may begin a secret: the rest is shown as it comes."""
    shown: list[str] = []

    async def courier(ctx: Context) -> None:
        async def words() -> AsyncIterator[str]:
            yield "One. "
            yield "Two. "
            live = await ctx.live.services.journal.live_text.unended(ctx.run_id)
            shown.extend(text.text for text in live)

        await ctx.say(words())

    timing = Timing()
    async with vault(":memory:", agents={"courier": courier}, timing=timing) as runtime:
        await (await runtime.start("courier")).result()
    assert "".join(shown).startswith("One. Two.")


async def test_a_journal_seals_whoever_writes_to_it(tmp_path: Path) -> None:
    """The one place that everything passes, without a runtime around it."""
    store = tmp_path / "store.db"
    async with Journal.open(store, secrets=KNOWN) as journal:
        born = Created(agent="agent", thread="t", input=dump(NESTED), by=LOOSE)
        birth = Append(run_id="r1", events=[born], expected_seq=0)
        await journal.append(birth, Order("r1", Redirect(by="ana", instruction=LOOSE)))
        claim = await journal.acquire("r1", owner="me", ttl_s=9, code_version=LOOSE)
        assert claim
        await journal.live_text.say(claim.lease, "part", SECRETS["pem"], offset=0)
        assert found_in(*files_of(store), *await journal.live_text.unended("r1")) == []
        with pytest.raises(InvalidId):
            await journal.live_text.say(claim.lease, SECRETS["least"], "text", offset=0)
    assert found_in(*files_of(store)) == []
