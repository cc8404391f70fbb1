"""One agent, in every framework that has an adapter: pause, redirect, resume, cancel, kill."""

import asyncio
import signal
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from pullcord import RunState as S
from pullcord.core.events import StepFinished, StepStarted, TextEnded
from pullcord.limits import MaxSteps, Tokens
from tests.agents import light_tools
from tests.agents.frameworks import EACH, Framework, agent_of, at_provider, said_in
from tests.agents.killed_talker import tools_for
from tests.agents.provider.fake import FakeProvider
from tests.agents.provider.reply import Reply, ToolCall, call, rate_limited, say
from tests.agents.scripted_agents import Ledger
from tests.runs.observed_runs import happened, names, question, runtime_with, seen, shown


@pytest.fixture(autouse=True)
async def complaints() -> AsyncGenerator[None]:
    """What the event loop complains of: an error that nobody took, a task that was lost."""
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: heard.append(str(said)))
    yield
    assert heard == []


pytestmark = [
    pytest.mark.timeout(120),
    # What the provider's client leaves of a stream that was cut is the garbage collector's.
    pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning"),
]
BOTH = Reply(parts=(ToolCall(name="note", args={"what": "a"}),
                    ToolCall(name="slow", args={"what": "b"})))  # fmt: skip


@pytest.fixture(params=EACH, ids=str)
def framework(request: pytest.FixtureRequest) -> Framework:
    return request.param


async def test_it_does_what_it_does_without_us_and_a_thread_goes_on(framework: Framework) -> None:
    ledger = Ledger()
    script = [call("note", {"what": "a"}), say("Noted."), say("And on.")]
    async with (
        at_provider(framework, *script, tools=[ledger.note]) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "note a", thread="t1")
        assert await run.result() == "Noted."
        cost = (await run.snapshot()).cost
        assert (cost.tokens_in, cost.tokens_out) == (22, 14)
        assert (await run.receipt()).done == ("note",)
        after = await runtime.start("talker", "and now?", thread="t1")
        assert await after.result() == "And on."
        assert at.sent() == [
            ("user", "note a"),
            ("call", "note"),
            ("return", "noted a"),
            ("assistant", "Noted."),
            ("user", "and now?"),
        ]
    assert ledger.did == ["a"]


# --- while it speaks ---


async def test_a_pause_shows_nothing_more_and_holds_the_answer(framework: Framework) -> None:
    async with (
        at_provider(framework, say("Shown.. and held until later.", stall_after=1)) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "write")
        await at.provider.async_wait_stalled()
        assert await shown(run, "Shown..") == "Shown.. "
        await run.pause()
        at.provider.release()
        await run.wait_for(S.PAUSED)
        texts = await happened(runtime, run.id, TextEnded)
        assert "held" not in str(texts)
        await run.resume()
        assert await run.result() == "Shown.. and held until later."
        assert len(at.provider.seen) == 1


async def test_a_pause_now_shuts_the_socket_and_resume_asks_again(framework: Framework) -> None:
    async with (
        at_provider(framework, say("A first try that hangs", stall_after=1), say("Whole.")) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "write")
        await at.provider.async_wait_stalled()
        await shown(run, "A first")
        await run.pause(now=True)
        await run.wait_for(S.PAUSED)
        assert (await at.provider.async_wait_closed()).cut_short
        await run.resume()
        assert str(await run.result()).endswith("Whole.")
        assert at.sent()[0] == ("user", "write")


async def test_a_redirect_is_delivered_once_with_what_was_shown(framework: Framework) -> None:
    script = [say("Tomatoes are red", stall_after=1), say("Potatoes are", stall_after=1), say("!")]
    async with at_provider(framework, *script) as at, runtime_with(talker=at.agent) as runtime:
        run = await runtime.start("talker", "write", thread="t1")
        await shown(run, "Tomatoes")
        await run.redirect("potatoes!")
        assert (await at.provider.async_wait_closed(0)).cut_short
        await shown(run, "Potatoes")
        await run.redirect("carrots!")
        assert await run.result() == "!"
        told = (await run.snapshot()).instructions.values()
        assert [(one.text, one.status) for one in told] == [
            ("potatoes!", "delivered"),
            ("carrots!", "delivered"),
        ]
        for word in ("potatoes!", "carrots!"):
            assert str(at.sent()).count(word) == 1
        assert [text for who, text in at.sent() if who == "assistant"] == ["Tomatoes", "Potatoes"]


async def test_a_cancel_shuts_the_socket_and_the_next_turn_knows(framework: Framework) -> None:
    async with (
        at_provider(framework, say("The first half", stall_after=1), say("ok")) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "write", thread="t1")
        await shown(run, "The firs")
        await run.cancel(by="ana", reason="wrong path")
        receipt = await run.receipt()
        assert (receipt.state, receipt.partial_text) == (S.CANCELLED, ("The firs",))
        assert (await at.provider.async_wait_closed()).cut_short
        assert await (await runtime.start("talker", "go on", thread="t1")).result() == "ok"
        assert at.sent()[:2] == [("user", "write"), ("assistant", "The firs")]
        assert "stopped by ana (wrong path)" in str(at.sent()[2:])
        assert str(at.sent()[-1]).endswith("go on')")


async def test_a_provider_that_is_busy_is_waited_for_by_us_alone(framework: Framework) -> None:
    async with (
        at_provider(framework, rate_limited(0), say("ok")) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "write")
        assert await run.result() == "ok"
        assert (await names(runtime, run.id)).count("step_started") == 2


async def test_an_answer_that_breaks_off_is_asked_for_again(framework: Framework) -> None:
    async with (
        at_provider(framework, say("Broken off", ending="cut"), say("ok")) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        assert await (await runtime.start("talker", "write")).result() == "ok"


# --- while a tool runs ---


async def test_a_pause_lets_a_tool_finish_and_asks_nothing_more(framework: Framework) -> None:
    ledger = Ledger()
    async with (
        at_provider(framework, BOTH, say("ok"), tools=[ledger.note, ledger.slow]) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "both")
        await ledger.begun.wait()
        await run.pause()
        ledger.go_on.set()
        await run.wait_for(S.PAUSED)
        assert len(at.provider.seen) == 1
        await run.resume()
        assert await run.result() == "ok"
    assert ledger.did == ["a", "b"]


async def test_a_redirect_lets_a_tool_finish_and_is_in_the_next_request(
    framework: Framework,
) -> None:
    ledger = Ledger()
    script = [call("slow", {"what": "a"}), call("note", {"what": "b"}), say("ok"), say("And on.")]
    async with (
        at_provider(framework, *script, tools=[ledger.note, ledger.slow]) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "go", thread="t1")
        await ledger.begun.wait()
        await run.redirect("only a!")
        ledger.go_on.set()
        assert await run.result() == "ok"
        assert at.sent(1)[-2:] == [("return", "done a"), ("user", "only a!")]
        assert str(at.sent()).count("only a!") == 1
        before = at.sent()
        await (await runtime.start("talker", "and now?", thread="t1")).result()
        assert at.sent()[: len(before)] == before  # as the journal has it


async def test_a_cancel_stops_tools_and_each_calls_fate_is_told(framework: Framework) -> None:
    ledger = Ledger()
    async with (
        at_provider(framework, BOTH, say("ok"), tools=[ledger.note, ledger.slow]) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "both", thread="t1")
        await ledger.begun.wait()
        await seen(run, StepFinished, nth=2)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        assert (receipt.done, receipt.interrupted) == (("note",), ("slow",))
        await (await runtime.start("talker", "and?", thread="t1")).result()
        returns = [text for who, text in at.sent() if who == "return"]
    assert returns[0] == "noted a"
    assert returns[1].startswith("interrupted:")
    assert ledger.did == ["a"]


async def test_a_sync_tool_stands_still_and_is_killed(framework: Framework, tmp_path: Path) -> None:
    book = tmp_path / "book"
    async with (
        at_provider(
            framework, call("dawdle", {"path": str(book)}), tools=[light_tools.dawdle]
        ) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "go")
        began = await seen(run, StepStarted, name="dawdle")
        assert began.run_in == "process"
        await written(book)
        await run.pause()
        await run.wait_for(S.PAUSED)
        await _stands_still(book)
        await run.resume()
        await run.cancel()
        receipt = await run.receipt()
        assert (receipt.interrupted, receipt.still_running) == (("dawdle",), ())
    await _stands_still(book)


async def _stands_still(book: Path) -> None:
    ticks = book.with_suffix(".ticks")
    before = ticks.stat().st_size if ticks.exists() else 0
    for _ in range(20):
        await asyncio.sleep(0.01)  # it would have ticked twenty times
    assert (ticks.stat().st_size if ticks.exists() else 0) == before


async def written(book: Path) -> None:
    async with asyncio.timeout(60):
        while not light_tools.lines(book):  # noqa: ASYNC110 (its process says it in no other way)
            await asyncio.sleep(0.01)


# --- after a kill ---


async def test_after_a_kill_a_finished_call_stays_and_one_in_flight_is_asked_about(
    framework: Framework, tmp_path: Path
) -> None:
    store, book = str(tmp_path / "runs.db"), tmp_path / "book"
    both = Reply(parts=(ToolCall(name="note", args={"what": "a"}),
                        ToolCall(name="hang", args={"what": "b"})))  # fmt: skip
    with FakeProvider() as provider:
        provider.script = [both, say("ok"), say("And on.")]
        url = provider.url(framework.wire)
        command = ["-m", "tests.agents.killed_talker", *framework, url, store, str(book)]
        process = await asyncio.create_subprocess_exec(
            sys.executable, *command, stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout
        assert await process.stdout.readline() == b"begun\n"
        process.send_signal(signal.SIGKILL)
        await process.wait()
        async with (
            agent_of(framework, url, tools_for(str(book))) as agent,
            runtime_with(store, talker=agent) as runtime,
        ):
            run = await runtime.get("r1")
            doubt = await question(run, kind="doubt")
            await run.answer(doubt, {"happened": "it hung"})
            assert await run.result() == "ok"
            after = await runtime.start("talker", "and now?", thread="t1")
            assert await after.result() == "And on."
        assert provider.violations == []
        sent = [said_in(one) for one in provider.seen]
    assert light_tools.lines(book) == ["noted a"]
    assert len(sent) == 3
    assert [text for who, text in sent[1] if who == "return"] == ["noted a", "it hung"]
    assert sent[2][:5] == sent[1][:5]


async def test_an_approval_by_name_survives_a_restart(framework: Framework, tmp_path: Path) -> None:
    ledger = Ledger()
    policies: Any = {"note": {"approve": "always"}}
    store = tmp_path / "runs.db"
    async with at_provider(
        framework, call("note", {"what": "a"}), say("ok"), tools=[ledger.note]
    ) as at:
        async with runtime_with(store, tools=policies, talker=at.agent) as runtime:
            run = await runtime.start("talker", "go", run_id="r1")
            asked = await question(run, kind="approval")
            assert ledger.did == []
        async with runtime_with(store, tools=policies, talker=at.agent) as runtime:
            run = await runtime.get("r1")
            await run.approve(asked, by="ana")
            assert await run.result() == "ok"
            began = await happened(runtime, run.id, StepStarted)
            assert [one.approval for one in began if one.tool] == [asked]
    assert ledger.did == ["a"]


# --- limits, and beside a run ---


async def test_tokens_are_counted_and_a_limit_of_them_stops_it(framework: Framework) -> None:
    ledger = Ledger()
    script = [call("note", {"what": str(n)}, usage=(300, 100)) for n in range(9)]
    async with (
        at_provider(framework, *script, tools=[ledger.note]) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "go", limits=Tokens(2000), on_exhausted="stop")
        await run.wait_for(S.STOPPED)
        used = await run.used()
        assert used.tokens == 400 * len(at.provider.seen)
        assert 0 < len(at.provider.seen) < 9


async def test_a_last_word_is_one_request_without_tools(framework: Framework) -> None:
    ledger = Ledger()
    script = [*(call("note", {"what": str(n)}) for n in range(2)), say("I noted two.")]
    async with (
        at_provider(framework, *script, tools=[ledger.note]) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "go", limits=MaxSteps(4), on_exhausted="wrap_up")
        assert await run.result() == "I noted two."
        assert (await run.snapshot()).state is S.STOPPED
        assert not at.provider.seen[-1].body.get("tools")
        assert "MaxSteps(4)" in str(at.sent()[-1])


@pytest.mark.parametrize("when", ["answer", "call"])
async def test_what_a_person_says_right_before_a_limit_is_in_the_last_word(
    framework: Framework, when: str
) -> None:
    """It was recorded as delivered, and was in no request: not in this run, nor in the next one."""
    ledger = Ledger()
    first = call("slow", {"what": "a"}) if when == "call" else say("Tomatoes", stall_after=1)
    async with (
        at_provider(framework, first, say("Done."), say("On."), tools=[ledger.slow]) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        limit = MaxSteps(2 if when == "call" else 1)
        run = await runtime.start("talker", "go", thread="t1", limits=limit, on_exhausted="wrap_up")
        await (ledger.begun.wait() if when == "call" else shown(run, "Tomatoes"))
        await run.redirect("Potatoes only!", by="ana")
        ledger.go_on.set()
        assert await run.result() == "Done."
        [told] = (await run.snapshot()).instructions.values()
        assert told.status == "delivered"
        await (await runtime.start("talker", "and now?", thread="t1")).result()
        counts = [str(at.sent(n)).count("Potatoes only!") for n in range(len(at.provider.seen))]
        assert counts == [0, 1, 1]


async def test_a_question_aside_has_no_tools_and_disturbs_nothing(framework: Framework) -> None:
    ledger = Ledger()
    script = [call("slow", {"what": "a"}), say("Half of it."), say("ok")]
    async with (
        at_provider(framework, *script, tools=[ledger.slow]) as at,
        runtime_with(talker=at.agent) as runtime,
    ):
        run = await runtime.start("talker", "go")
        await ledger.begun.wait()
        aside = await run.ask_aside("how far?")
        assert await aside.result() == "Half of it."
        assert not at.provider.seen[1].body.get("tools")
        assert "side question" in str(at.sent(1))
        ledger.go_on.set()
        assert await run.result() == "ok"
        assert "side question" not in str(at.sent())
