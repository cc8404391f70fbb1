"""A provider that is in trouble, or makes some: it is tried again, or told; nothing hangs, nothing
that was shown is lost, and the next turn on the thread is taken."""

import email.utils
import time
from pathlib import Path

import pytest

from pullcord import RunFailed, RunState
from pullcord.core.events import Spent, StepFailed, StepStarted, TextEnded
from tests.agents.line import BACKOFF, Line, Patience, line
from tests.agents.provider.dialects import DIALECTS, Dialect
from tests.agents.provider.reply import (
    Ending,
    Reply,
    Text,
    ToolCall,
    call,
    html_page,
    rate_limited,
    say,
    server_error,
)
from tests.agents.scripted_agents import QUICK
from tests.runs.observed_runs import happened, seen
from tests.storage.campaign import FULL

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(60)]
every_dialect = pytest.mark.parametrize("dialect", DIALECTS)
each_dialect = pytest.mark.parametrize("dialect", DIALECTS if FULL else DIALECTS[:1])
BROKEN = ['{"what": ', "[1]", "null", "not JSON at all", '{"what": {}}']
LONG = "Half of the answer, and no more."


class Notes:
    """A tool that remembers what it was told to note."""

    def __init__(self) -> None:
        self.made: list[str] = []

    async def note(self, what: str) -> str:
        """Note something."""
        self.made.append(what)
        return f"noted {len(what)}"


async def texts_of(here: Line, run_id: str) -> list[tuple[str, bool]]:
    return [(t.text, t.complete) for t in await happened(here.runtime, run_id, TextEnded)]


# --- it asks us to wait ---


def is_not_free(spent: Spent) -> bool:
    """What a call has cost is known, estimated or unknown; never nothing."""
    return spent.cost_usd_micros is None or (spent.estimated and spent.cost_usd_micros > 0)


@each_dialect
@pytest.mark.parametrize("asked", ["86400", "1e9", "date"])
async def test_an_absurd_wait_becomes_a_pause_that_says_why(dialect: Dialect, asked: str) -> None:
    if asked == "date":
        asked = email.utils.formatdate(time.time() + 86_400, usegmt=True)
    busy = Reply(status=429, headers={"retry-after": asked})
    async with line(dialect, busy, say("Here I am."), clock=Patience()) as here:
        run = await here.start()
        paused = await run.wait_for(RunState.PAUSED)
        assert paused.pause is not None
        assert (paused.pause.by, paused.pause.source) == ("pullcord", "policy")
        assert "asks to wait" in paused.pause.reason
        assert len(here.provider.seen) == 1
        await run.resume()
        assert await run.result() == "Here I am."
        assert len(here.provider.seen) == 2
        await here.is_still_usable()


async def test_after_such_a_pause_another_process_tries_again(tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    async with line("chat", rate_limited(1e6), path=store) as here:
        run = await here.start()
        await run.wait_for(RunState.PAUSED)
    async with line("chat", say("Here I am."), path=store) as here:
        run = await here.runtime.get(run.id)
        await run.resume()
        assert await run.result() == "Here I am."
        assert len(here.provider.seen) == 1


async def test_it_may_ask_again_for_as_long_as_somebody_resumes() -> None:
    async with line("chat", *[rate_limited(1e6)] * 6, say("At last.")) as here:
        run = await here.start()
        for turn in range(6):
            await run.wait_for(RunState.PAUSED)
            assert len(here.provider.seen) == turn + 1
            await run.resume()
        assert await run.result() == "At last."


async def test_a_redirect_during_such_a_pause_is_in_the_request_after_it() -> None:
    async with line("chat", rate_limited(1e6), say("Carrots.")) as here:
        run = await here.start()
        await run.wait_for(RunState.PAUSED)
        await run.redirect("carrots!")
        await run.resume()
        assert await run.result() == "Carrots."
        assert here.provider.seen[1].raw.count(b"carrots!") == 1
        assert here.provider.violations == []


@each_dialect
async def test_a_short_wait_is_as_long_as_it_asks_for(dialect: Dialect) -> None:
    clock = Patience()
    async with line(dialect, rate_limited(7), say("Here I am."), clock=clock) as here:
        run = await here.start()
        await clock.is_asked_for(7.0)
        clock.advance(6.9)
        assert (await run.snapshot()).state is RunState.RUNNING
        assert len(here.provider.seen) == 1
        clock.advance(0.2)
        assert await run.result() == "Here I am."
        assert [one.status for one in (await run.snapshot()).steps.values()] == ["finished"]


async def test_a_cancel_ends_the_wait() -> None:
    clock = Patience()
    async with line("chat", rate_limited(7), clock=clock) as here:
        run = await here.start()
        await clock.is_asked_for(7.0)
        await run.cancel()
        assert (await run.receipt()).state is RunState.CANCELLED
        clock.advance(100)
        assert len(here.provider.seen) == 1
        await here.is_still_usable()


async def test_a_redirect_ends_the_wait_and_is_in_the_next_request() -> None:
    clock = Patience()
    async with line("chat", rate_limited(7), say("Carrots."), clock=clock) as here:
        run = await here.start()
        await clock.is_asked_for(7.0)
        await run.redirect("carrots!")
        assert await run.result() == "Carrots."
        assert here.provider.seen[1].raw.count(b"carrots!") == 1
        assert here.provider.violations == []


@pytest.mark.parametrize("now", [False, True])
async def test_a_pause_takes_hold_in_the_wait_and_nothing_is_asked_before_resume(
    now: bool,
) -> None:
    clock = Patience()
    async with line("chat", rate_limited(7), say("Here I am."), clock=clock) as here:
        run = await here.start()
        await clock.is_asked_for(7.0)
        await run.pause(now=now)
        await run.wait_for(RunState.PAUSED)
        clock.advance(20)
        assert len(here.provider.seen) == 1
        await run.resume()
        assert await run.result() == "Here I am."


async def test_a_shutdown_ends_the_wait_and_the_next_process_goes_on(tmp_path: Path) -> None:
    clock, store = Patience(), tmp_path / "runs.db"
    async with line("chat", rate_limited(7), clock=clock, path=store) as here:
        run = await here.start()
        await clock.is_asked_for(7.0)
    async with line("chat", say("Here I am."), path=store) as here:
        assert await (await here.runtime.get(run.id)).result() == "Here I am."


# --- it cannot ---


@each_dialect
@pytest.mark.parametrize("status", [429, 500, 502, 503, 529] if FULL else [429, 529])
async def test_it_is_tried_again_and_only_by_us(dialect: Dialect, status: int) -> None:
    clock = Patience(skips=BACKOFF)
    script = [*[server_error(status)] * 3, say("Here I am.")]
    async with line(dialect, *script, clock=clock) as here:
        run = await here.start()
        assert await run.result() == "Here I am."
        assert len(here.provider.seen) == 4
        assert [s for s in clock.asked if s in BACKOFF] == list(BACKOFF)
        assert len(await happened(here.runtime, run.id, StepFailed)) == 3
        await here.is_still_usable()


async def test_what_the_agent_says_about_retries_does_not_make_more_of_them() -> None:
    clock = Patience(skips=BACKOFF)
    async with line("chat", *[server_error()] * 9, clock=clock, max_retries=5) as here:
        here.agent.model_settings = {"max_retries": 3}
        run = await here.start()
        with pytest.raises(RunFailed):
            await run.result()
        assert len(here.provider.seen) == 4


@each_dialect
async def test_trouble_without_end_is_a_failure_that_is_told(dialect: Dialect) -> None:
    clock = Patience(skips=BACKOFF)
    async with line(dialect, *[server_error()] * 9, clock=clock) as here:
        run = await here.start("remember the milk")
        with pytest.raises(RunFailed, match="500"):
            await run.result()
        assert len(here.provider.seen) == 4
        await here.is_still_usable()
        assert b"remember the milk" in here.provider.seen[-1].raw


@each_dialect
@pytest.mark.parametrize("status", [400, 401, 404, 413] if FULL else [401])
async def test_what_waiting_cannot_mend_is_not_tried_again(dialect: Dialect, status: int) -> None:
    async with line(dialect, server_error(status)) as here:
        run = await here.start()
        with pytest.raises(RunFailed, match=str(status)):
            await run.result()
        assert len(here.provider.seen) == 1
        await here.is_still_usable()


@each_dialect
async def test_a_page_that_is_no_answer_is_a_failure(dialect: Dialect) -> None:
    async with line(dialect, html_page()) as here:
        run = await here.start()
        with pytest.raises(RunFailed):
            await run.result()
        assert all(map(is_not_free, await happened(here.runtime, run.id, Spent)))
        await here.is_still_usable()


# --- it breaks off ---


@every_dialect
@pytest.mark.parametrize("ending", ["cut", "clean_cut", "reset", "error"])
@pytest.mark.parametrize("after", [0, 2] if FULL else [2])
async def test_half_an_answer_is_no_answer(dialect: Dialect, ending: Ending, after: int) -> None:
    """What was shown of it stays, marked as cut, and the same is asked again."""
    clock = Patience(skips=BACKOFF)
    script = say(LONG, ending=ending, cut_after=after), say("The whole.")
    async with line(dialect, *script, clock=clock) as here:
        run = await here.start()
        assert await run.result() == "The whole."
        [failed] = await happened(here.runtime, run.id, StepFailed)
        assert failed.error
        sent = here.provider.seen[0].sent_text
        *cut, whole = await texts_of(here, run.id)
        assert whole == ("The whole.", True)
        assert not any(complete for _, complete in cut)
        assert sent.startswith("".join(text for text, _ in cut))
        assert here.provider.seen[1].body == here.provider.seen[0].body
        await here.is_still_usable()


@every_dialect
@pytest.mark.parametrize("ending", ["cut", "clean_cut", "reset", "error"])
async def test_a_call_in_half_an_answer_is_not_made(dialect: Dialect, ending: Ending) -> None:
    notes, clock = Notes(), Patience(skips=BACKOFF)
    both = (Text(text="I note it."), ToolCall(name="note", args={"what": "a"}))
    script = Reply(parts=both, ending=ending, chunk_chars=100), say("Never mind.")
    async with line(dialect, *script, clock=clock, tools=[notes.note]) as here:
        run = await here.start()
        assert await run.result() == "Never mind."
        assert notes.made == []
        await here.is_still_usable()


@each_dialect
@pytest.mark.parametrize("ending", ["cut", "clean_cut"])
async def test_what_was_shown_of_an_answer_that_never_comes_is_kept(
    dialect: Dialect, ending: Ending
) -> None:
    clock = Patience(skips=BACKOFF)
    script = [say(f"Try {n}. {LONG}", ending=ending, cut_after=2) for n in range(1, 5)]
    async with line(dialect, *script, clock=clock) as here:
        run = await here.start()
        with pytest.raises(RunFailed):
            await run.result()
        shown = [text for text, complete in await texts_of(here, run.id) if not complete]
        assert shown
        last = here.provider.seen[3].sent_text
        assert (await run.receipt()).partial_text == tuple(shown)
        await here.is_still_usable()
        if shown[-1] == last:  # it came through before the connection broke
            assert last.encode() in here.provider.seen[-1].raw


@each_dialect
async def test_a_connection_that_ends_before_any_answer_is_tried_again(dialect: Dialect) -> None:
    clock = Patience(skips=BACKOFF)
    script = [say("", ending=how, cut_after=-1) for how in ("cut", "reset")]
    async with line(dialect, *script, say("Here I am."), clock=clock) as here:
        assert await (await here.start()).result() == "Here I am."
        assert len(here.provider.seen) == 3


async def test_nobody_is_there() -> None:
    clock = Patience(skips=BACKOFF)
    async with line("chat", say("Here I am."), clock=clock) as here:
        here.provider.__exit__(None, None, None)
        run = await here.start()
        with pytest.raises(RunFailed, match="onnection"):
            await run.result()


# --- it talks nonsense ---


@each_dialect
async def test_calls_that_claim_the_same_place_are_not_made_up(dialect: Dialect) -> None:
    """However the library sorts them: each call that is made was asked for, and once."""
    notes = Notes()
    two = tuple(ToolCall(name="note", args={"what": what}) for what in "ab")
    script = Reply(parts=two, duplicate_indices=True), say("Fine.")
    async with line(dialect, *script, tools=[notes.note]) as here:
        assert await (await here.start()).result() == "Fine."
        assert notes.made in ([], ["a"], ["b"], ["a", "b"])
        await here.is_still_usable()


@each_dialect
async def test_texts_and_a_call_that_claim_the_same_place(dialect: Dialect) -> None:
    notes = Notes()
    parts = (Text(text="One."), Text(text="Two."), ToolCall(name="note", args={"what": "a"}))
    script = Reply(parts=parts, duplicate_indices=True), say("Fine.")
    async with line(dialect, *script, tools=[notes.note]) as here:
        run = await here.start()
        try:
            assert await run.result() == "Fine."
        except RunFailed:  # it cannot add a call to a text; that is told, too
            assert "UnexpectedModelBehavior" in (await run.snapshot()).error
        assert "".join(text for text, _ in await texts_of(here, run.id))[:8] == "One.Two."
        await here.is_still_usable()


@every_dialect
async def test_two_calls_of_one_name_do_not_spoil_the_thread(dialect: Dialect) -> None:
    notes = Notes()
    two = tuple(ToolCall(name="note", args={"what": what}, id="c1") for what in "ab")
    async with line(dialect, Reply(parts=two), tools=[notes.note]) as here:
        run = await here.start()
        with pytest.raises(RunFailed, match="c1"):
            await run.result()
        assert notes.made == []
        await here.is_still_usable()


@each_dialect
@pytest.mark.parametrize("args", BROKEN if FULL else BROKEN[:2])
async def test_arguments_that_are_broken_go_back_to_the_model(dialect: Dialect, args: str) -> None:
    notes = Notes()
    script = call("note", args), call("note", {"what": "a"}), say("Fine.")
    async with line(dialect, *script, tools=[notes.note]) as here:
        assert await (await here.start()).result() == "Fine."
        assert notes.made == ["a"]
        await here.is_still_usable()


@each_dialect
async def test_a_tool_that_nobody_has_goes_back_to_the_model(dialect: Dialect) -> None:
    async with line(dialect, call("nobody"), say("Fine."), tools=[Notes().note]) as here:
        assert await (await here.start()).result() == "Fine."
        assert b"nobody" in here.provider.seen[1].raw
        await here.is_still_usable()


@each_dialect
async def test_a_model_that_never_learns_is_a_failure(dialect: Dialect) -> None:
    async with line(dialect, *[call("nobody")] * 9, tools=[Notes().note]) as here:
        run = await here.start()
        with pytest.raises(RunFailed, match="nobody"):
            await run.result()
        await here.is_still_usable()


# --- it says too much, or too little ---


@each_dialect
async def test_five_megabytes_of_arguments_arrive_whole(dialect: Dialect) -> None:
    notes, size = Notes(), 5 * 2**20
    script = call("note", {"what": "x" * size}, chunk_chars=2**16), say("Fine.")
    async with line(dialect, *script, tools=[notes.note]) as here:
        assert await (await here.start()).result() == "Fine."
        assert [len(what) for what in notes.made] == [size]
        await here.is_still_usable()


@each_dialect
async def test_three_megabytes_of_text_are_shown_whole(dialect: Dialect) -> None:
    text = "Grüße, 世界. " * 250_000
    async with line(dialect, say(text, chunk_chars=2**13, cut_pause_s=0)) as here:
        run = await here.start()
        assert await run.result() == text
        assert await texts_of(here, run.id) == [(text, True)]
        await here.is_still_usable()


@each_dialect
@pytest.mark.parametrize("control", ["cancel", "redirect"])
async def test_a_flood_can_be_cut(dialect: Dialect, control: str) -> None:
    text = "abcdefgh" * 400_000
    async with line(dialect, say(text, chunk_chars=2**13), say("Fine.")) as here:
        run = await here.start()
        await here.provider.async_wait_chunks(0, 3)
        await getattr(run, control)(*(["short!"] if control == "redirect" else []))
        if control == "redirect":
            assert await run.result() == "Fine."
        await run.receipt()
        said = await texts_of(here, run.id)
        if control == "redirect":
            assert said.pop() == ("Fine.", True)
        [(cut, complete)] = said or [("", False)]  # it was cut before anything of it was shown
        assert text.startswith(cut)
        assert complete == (len(cut) == len(text))
        await here.is_still_usable()


@every_dialect
async def test_what_nobody_says_the_usage_of_is_never_free(
    dialect: Dialect,
) -> None:
    async with line(dialect, say("Hi.", usage=None)) as here:
        run = await here.start()
        try:
            assert await run.result() == "Hi."
        except RunFailed:  # Pydantic AI cannot read an Anthropic message without it
            assert dialect == "anthropic"
        [spent] = await happened(here.runtime, run.id, Spent)
        assert is_not_free(spent)
        await here.is_still_usable()


@each_dialect
async def test_what_a_cut_answer_costs_is_estimated_and_never_free(dialect: Dialect) -> None:
    async with line(dialect, say(LONG, stall_after=2), timing=QUICK) as here:
        run = await here.start()
        await here.provider.async_wait_stalled(0)
        await seen(run, StepStarted)
        await run.cancel()
        await run.receipt()
        [spent] = await happened(here.runtime, run.id, Spent)
        assert spent.estimated
        assert is_not_free(spent)


@each_dialect
async def test_an_answer_that_says_nothing_is_not_shown(dialect: Dialect) -> None:
    async with line(dialect, say(""), say("Fine.")) as here:
        run = await here.start()
        assert await run.result() == "Fine."
        assert await texts_of(here, run.id) == [("Fine.", True)]
        await here.is_still_usable()
