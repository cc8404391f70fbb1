"""Promise: what happened, or may have happened, is inherited as that by whoever tries again.

A fork, `try_again` and a second life find a `once` step answered, or have somebody asked
about it: it is never carried out a second time unasked. What only reads, or may be done twice with
the same key, is simply done again.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Final

import pytest

import pullcord
from pullcord import Call, Context, RunHandle, RunState, Runtime, StepError, ToolContext
from pullcord.core.events import (
    ChildBorn,
    Created,
    Event,
    LateResult,
    QuestionAsked,
    StepFailed,
    StepFinished,
    StepStarted,
)
from pullcord.core.values import dump, load
from pullcord.journal.rules.ledger import Append
from pullcord.runtime.steps.identity import LONG_IDS, Identity, Scope
from pullcord.runtime.steps.memory import Memory
from tests.declaring import declared_as
from tests.runs import some_tools
from tests.runs.observed_runs import HASTY, OutsideWorld, happened, question, runtime_with, seen

Agent = Any


async def asked_of(runtime: Runtime, run: RunHandle) -> list[QuestionAsked]:
    return await happened(runtime, run.id, QuestionAsked)


# --- the three kinds of A4: each was carried out twice, and nobody was asked --------------------


class Outside:
    """What tools do to the world, in files, so that those in a process of their own do it too."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def did(self) -> list[str]:
        return self.path.read_text().splitlines() if self.path.exists() else []


def put(path: str, what: str) -> None:
    with open(path, "a", encoding="utf-8") as outside:
        outside.write(f"{what}\n")


@pullcord.tool(timeout_s=0.2, stop_grace_s=0)
async def takes_too_long(path: str) -> str:
    put(path, "done")
    await asyncio.Event().wait()
    return "never"


@pullcord.tool
async def gives_what_cannot_be_stored(path: str) -> Any:
    put(path, "done")
    return object()


def calls(tool: Callable[..., Any], outside: Outside) -> Agent:
    async def agent(ctx: Context) -> Any:
        return {"gave": await ctx.tool(tool, str(outside.path))}

    return agent


@pytest.mark.parametrize(
    "tool", [takes_too_long, some_tools.is_killed, gives_what_cannot_be_stored]
)
@pytest.mark.parametrize(
    ("answer", "gave", "times"),
    [("happened", None, 1), ({"happened": "it is paid"}, "it is paid", 1), ("skip", None, 1)],
)
async def test_a_fork_asks_about_what_failed_and_may_have_happened(
    tmp_path: Path, tool: Any, answer: Any, gave: Any, times: int
) -> None:
    outside = Outside(tmp_path / "world")
    async with runtime_with(agent=calls(tool, outside)) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.FAILED)
        fork = await run.try_again()
        name = await question(fork)
        assert outside.did == ["done"]
        [asked] = await asked_of(runtime, fork)
        assert load(asked.details)["choices"] == ["happened", "run", "skip"]
        await fork.answer(name, answer)
        assert await fork.result() == {"gave": gave}
    assert outside.did == ["done"] * times


async def test_an_answer_that_is_none_is_said_to_be_none(tmp_path: Path) -> None:
    """The same was asked again, without a word why."""
    outside = Outside(tmp_path / "world")
    async with runtime_with(agent=calls(takes_too_long, outside)) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.FAILED)
        fork = await run.try_again()
        await fork.answer(await question(fork), "banana")
        again = await question(fork, nth=2)
        asked = {event.question: event.text for event in await asked_of(runtime, fork)}
        assert asked[again].startswith("The answer “banana” is none of happened, run, skip. ")
        assert asked[again].endswith(asked["doubts"])
        await fork.answer(again, "skip")
        assert await fork.result() == {"gave": None}
    assert outside.did == ["done"]


async def test_only_by_a_persons_word_is_it_done_again(tmp_path: Path) -> None:
    outside = Outside(tmp_path / "world")
    async with runtime_with(agent=calls(takes_too_long, outside)) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.FAILED)
        fork = await run.fork()
        await fork.answer(await question(fork), "run")
        await fork.wait_for(RunState.FAILED)
    assert outside.did == ["done", "done"]


async def test_one_that_cut_itself_is_asked_about() -> None:
    """A cancellation that nobody asked for came out of it, in the middle of its work."""
    did: list[str] = []

    async def pay() -> None:
        did.append("paid")
        raise asyncio.CancelledError

    async def agent(ctx: Context) -> Any:
        return await ctx.step("pay", pay)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.FAILED)
        fork = await run.try_again()
        await fork.answer(await question(fork), {"happened": "it is paid"})
        assert await fork.result() == "it is paid"
    assert did == ["paid"]


# --- a child's too: the fork's child goes on from the child that was there ------------------------


async def hands_on(ctx: Context) -> Any:
    return await (await ctx.spawn("kid", "work")).result()


@pytest.mark.parametrize(
    "tool", [takes_too_long, some_tools.is_killed, gives_what_cannot_be_stored]
)
async def test_what_a_failed_child_may_have_done_is_asked_about(
    tmp_path: Path, tool: Callable[..., Any]
) -> None:
    outside = Outside(tmp_path / "world")
    done = Outside(tmp_path / "done")

    async def kid(ctx: Context, _given: str) -> Any:
        await ctx.step("pays", put_async, str(done.path), "paid")
        return {"gave": await ctx.tool(tool, str(outside.path))}

    async with runtime_with(agent=hands_on, kid=kid) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.FAILED)
        fork = await run.try_again()
        child = await the_child(runtime, fork)
        name = await question(child)
        assert (outside.did, done.did) == (["done"], ["paid"])
        await child.answer(name, {"happened": "it is paid"})
        assert await fork.result() == {"gave": "it is paid"}
        again = await run.fork()  # and once more, from the first, whose child has failed
        await question(await the_child(runtime, again))
    assert (outside.did, done.did) == (["done"], ["paid"])


async def test_of_a_child_that_was_undone_only_that_is_done_again(tmp_path: Path) -> None:
    """A cancel takes back the child's draft and cannot take back its mail."""
    did: list[str] = []

    async def takes_back(_call: Call) -> None:
        did.append("took back")

    @pullcord.tool(undo=takes_back)
    async def draft() -> None:
        did.append("draft")

    @pullcord.tool
    async def mail() -> None:
        did.append("mail")

    async def kid(ctx: Context, _given: str) -> str:
        await ctx.tool(draft)
        await ctx.tool(mail)
        return "ready"

    async def agent(ctx: Context) -> Any:
        await hands_on(ctx)
        return await ctx.ask("Go on?")

    async with runtime_with(agent=agent, kid=kid) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await run.cancel()
        await run.receipt()
        fork = await run.fork()
        await fork.answer(await question(fork), "yes")
        await fork.result()
    assert did == ["draft", "mail", "took back", "draft"]


@pytest.mark.parametrize(("word", "sent"), [("continue", 1), ("run", 2)])
@pytest.mark.parametrize("way", ["again", "deploy"])
async def test_a_child_with_another_input_is_asked_about(
    tmp_path: Path, way: str, word: str, sent: int
) -> None:
    """The code was changed in between: where the same agent was started with another input."""
    did: list[str] = []
    given = {"input": "v1"}

    async def send() -> None:
        did.append("sent")

    async def kid(ctx: Context, wanted: str) -> str:
        await ctx.step("send", send)
        if wanted == "v1":
            raise RuntimeError("no")
        return wanted

    async def agent(ctx: Context) -> str:
        child = await ctx.spawn("kid", given["input"])
        if way == "again":
            return await child.result()
        with suppress(pullcord.RunFailed):
            await child.result()
        return await ctx.ask("Go on?")

    path = tmp_path / "runs.db"
    async with runtime_with(path, agent=agent, kid=kid) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await (run.wait_for(RunState.FAILED) if way == "again" else question(run))
    given["input"] = "v2"
    async with runtime_with(path, agent=agent, kid=kid) as runtime:
        run = await runtime.get("r1")
        if way == "again":
            run = await run.try_again()
        else:
            await run.answer(await question(run), "yes")
        name = (await seen(run, QuestionAsked, nth=1 if way == "again" else 2)).question
        assert did == ["sent"]
        await run.answer(name, word)
        assert await run.result() == ("v2" if way == "again" else "yes")
    assert did == ["sent"] * sent


async def test_a_detached_child_is_not_started_a_second_time() -> None:
    world = OutsideWorld()

    async def kid(ctx: Context, given: str) -> Any:
        return await ctx.step("work", world.do, given)

    async def agent(ctx: Context) -> Any:
        child = await ctx.spawn("kid", "mail", detached=True)
        raise RuntimeError(f"after {child.run_id}")

    async with runtime_with(agent=agent, kid=kid) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.FAILED)
        [child] = [one for one in await runtime.list() if one.agent == "kid"]
        await (await runtime.get(child.run_id)).result()
        fork = await run.try_again()
        await fork.wait_for(RunState.FAILED)
        assert len([one for one in await runtime.list() if one.agent == "kid"]) == 1
    assert world.did == ["mail"]


async def put_async(path: str, what: str) -> None:
    put(path, what)


async def the_child(runtime: Runtime, run: RunHandle) -> RunHandle:
    return await runtime.get((await seen(run, ChildBorn)).child)


# --- a word counts for the attempt that it was said of -------------------------------------------


class Till:
    """A step that acts and is then cut, as often as it is begun."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.began = asyncio.Event()

    async def pay(self, what: str) -> str:
        self.paid.append(what)
        self.began.set()
        await asyncio.Event().wait()
        return "never"

    async def cut(self, run: RunHandle) -> None:
        await self.began.wait()
        self.began.clear()
        await run.cancel()
        await run.receipt()


async def test_a_word_for_one_attempt_is_none_for_the_next() -> None:
    """A person says "run" in a fork, and that attempt is cut too: a fork of it asks again."""
    till = Till()

    async def agent(ctx: Context) -> None:
        await ctx.step("pay", till.pay, "A")

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        await till.cut(run)
        fork = await run.fork()
        await fork.answer(await question(fork), "run")
        await till.cut(fork)
        again = await fork.fork()
        await question(again)
        third = await again.fork()  # of one that has only asked
        await question(third)
    assert till.paid == ["A", "A"]


async def test_a_word_for_one_step_is_none_for_another() -> None:
    till = Till()

    async def agent(ctx: Context) -> None:
        await ctx.step("pay", till.pay, "A")
        await ctx.step("pay", till.pay, "B")

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        await till.cut(run)
        fork = await run.fork()
        await fork.answer(await question(fork), "happened")  # A; then B begins
        await till.cut(fork)
        again = await fork.fork()
        assert await question(again) == "doubts"  # about B alone: A is known
        [asked] = await asked_of(runtime, again)
        assert "'pay' may have happened" in asked.text
        await again.answer("doubts", "skip")
        await again.result()
        last = await again.fork()
        await last.result()  # what is to be left out stays so
        assert await asked_of(runtime, last) == []
    assert till.paid == ["A", "B"]


async def test_a_probe_is_asked_about_each_attempt() -> None:
    till, probed = Till(), list[str]()

    async def not_yet(_call: Call) -> bool:
        probed.append("no")
        return False

    @pullcord.tool(probe=not_yet)
    async def pay() -> str:
        return await till.pay("A")

    async def agent(ctx: Context) -> None:
        await ctx.tool(pay)

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        await till.cut(run)
        fork = await run.fork()
        await till.cut(fork)
        again = await fork.fork()
        await till.cut(again)
    assert (till.paid, probed) == (["A"] * 3, ["no"] * 2)


async def test_what_is_about_to_be_undone_is_asked_about() -> None:
    """A fork is made while an undo is under way, which fails in the end."""
    undoing, go_on = asyncio.Event(), asyncio.Event()
    did: list[str] = []

    async def takes_back(_call: Call) -> None:
        undoing.set()
        await go_on.wait()
        raise RuntimeError("the bank is closed")

    @pullcord.tool(undo=takes_back)
    async def pay() -> None:
        did.append("paid")

    async def agent(ctx: Context) -> Any:
        await ctx.tool(pay)
        return await ctx.ask("Go on?")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await run.cancel()
        await undoing.wait()
        fork = await run.fork()
        assert await question(fork) == "doubts"
        go_on.set()
        await run.receipt()
    assert did == ["paid"]


async def test_an_answer_of_the_run_before_does_not_make_its_fork_go_in_circles(
    tmp_path: Path,
) -> None:
    """The same attempt of the same step is in doubt in a run and, later, in its fork: the answer
    that was given in the first is none in the second."""
    till, is_refused = Till(), asyncio.Event()

    async def pay() -> None:
        if is_refused.is_set():
            raise RuntimeError("the bank said no")
        await till.pay("A")

    async def agent(ctx: Context) -> None:
        await ctx.step("pay", pay)

    path = tmp_path / "runs.db"
    async with runtime_with(path, agent=agent, timing=HASTY) as runtime:
        await runtime.start("agent", run_id="r1")
        await till.began.wait()
    is_refused.set()
    async with runtime_with(path, agent=agent, timing=HASTY) as runtime:
        run = await runtime.get("r1")
        await run.answer(await question(run), "run")
        await run.wait_for(RunState.FAILED)
        is_refused.clear()
        till.began.clear()
        fork = await run.try_again()
        await till.began.wait()
    async with runtime_with(path, agent=agent, timing=HASTY) as runtime:
        await question(await runtime.get(fork.id))
    assert till.paid == ["A", "A"]


# --- what the first life says of it -------------------------------------------------------------


@pytest.mark.parametrize("tool", [takes_too_long, some_tools.is_killed])
async def test_what_may_have_happened_is_in_doubt_for_people_and_told_to_its_agent(
    tmp_path: Path, tool: Any
) -> None:
    outside = Outside(tmp_path / "world")
    told: list[str] = []

    async def agent(ctx: Context) -> str:
        try:
            await ctx.tool(tool, str(outside.path))
        except StepError as error:
            told.append(error.happened)
        return "went on"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "went on"
        [failed] = await happened(runtime, run.id, StepFailed)
        said = await run.receipt()
        assert failed.happened == "maybe"
        name = getattr(tool, "name", "is_killed")
        assert (said.in_doubt, said.failed) == ((name,), ())
        assert [repr(name) in text for text in said.attention] == [True]
    assert (told, outside.did) == (["maybe"], ["done"])


async def test_what_happened_and_cannot_be_stored_is_done_and_told_to_its_agent(
    tmp_path: Path,
) -> None:
    outside = Outside(tmp_path / "world")
    told: list[str] = []

    async def agent(ctx: Context) -> str:
        try:
            await ctx.tool(gives_what_cannot_be_stored, str(outside.path))
        except StepError as error:
            told.append(error.happened)
        return "went on"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "went on"
        assert (await run.receipt()).done == ("gives_what_cannot_be_stored",)
    assert told == ["yes"]


@pytest.mark.parametrize("function", [takes_too_long.function, some_tools.is_killed])
async def test_the_probe_of_a_call_that_may_have_happened_is_asked_in_its_first_life(
    tmp_path: Path, function: Any
) -> None:
    outside = Outside(tmp_path / "world")

    async def found(call: Call) -> Any:
        return call.happened("receipt 12") if outside.did else False

    declared: dict[str, Any] = {} if function is some_tools.is_killed else {"timeout_s": 0.2}
    tool = declared_as(stop_grace_s=0, probe=found, **declared)(function)
    async with runtime_with(agent=calls(tool, outside)) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == {"gave": "receipt 12"}
        assert await asked_of(runtime, run) == []
        assert (await run.receipt()).done == (tool.name,)
    assert outside.did == ["done"]


async def test_a_probe_says_in_a_fork_too_and_is_handed_the_key_of_the_first_call(
    tmp_path: Path,
) -> None:
    keys: list[str] = []

    async def says(call: Call) -> Any:
        keys.append(call.idempotency_key)
        return call.happened("receipt 12") if len(keys) > 2 else None

    @pullcord.tool(timeout_s=0.2, stop_grace_s=0, probe=says)
    async def pay(ctx: ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        await asyncio.Event().wait()
        return "never"

    async def agent(ctx: Context) -> Any:
        return await ctx.tool(pay)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        name = await question(run, kind="doubt")  # the probe could not tell
        fork = await run.fork()
        assert await fork.result() == "receipt 12"
        assert await asked_of(runtime, fork) == []
        await run.answer(name, "happened")
        await run.result()
        assert await (await fork.fork()).result() == "receipt 12"  # as it was said then
    assert len(set(keys)) == 1


# --- what may be done twice is ------------------------------------------------------------------


@pytest.mark.parametrize("effect", ["none", "idempotent"])
async def test_what_may_be_done_twice_is_done_again_with_the_same_key(effect: str) -> None:
    keys: list[str] = []

    @declared_as(timeout_s=0.2, stop_grace_s=0, effect=effect)
    async def put_it(ctx: ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        if len(keys) < 3:
            await asyncio.Event().wait()
        return "done"

    tool: Callable[..., Any] = put_it

    async def agent(ctx: Context) -> Any:
        return await ctx.tool(tool)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.FAILED)
        fork = await run.fork()
        await fork.wait_for(RunState.FAILED)
        assert await (await fork.fork()).result() == "done"
        assert await asked_of(runtime, fork) == []
    assert len(keys) == 3
    assert len(set(keys)) == (1 if effect == "idempotent" else 3)


async def test_what_came_late_is_an_answer_in_a_fork() -> None:
    world = OutsideWorld()

    async def ignores() -> str:
        world.begun.set()
        while not world.go_on.is_set():
            with suppress(asyncio.CancelledError):
                await world.go_on.wait()
        return "receipt 12"

    async def agent(ctx: Context) -> Any:
        return await ctx.step("pay", ignores)

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        await world.begun.wait()
        await run.cancel()
        await run.wait_for(RunState.CANCELLED)
        world.go_on.set()
        async with aclosing(runtime.journal.changes.subscribe(run.id)) as stream:
            async for _, item in stream:
                if isinstance(getattr(item, "event", None), LateResult):
                    break
        fork = await run.fork()
        assert await fork.result() == "receipt 12"
        assert await asked_of(runtime, fork) == []


# --- one card -----------------------------------------------------------------------------------


def three_at_once(world: OutsideWorld, *, fixed: bool) -> Agent:
    async def pay(what: str) -> str:
        world.did.append(what)
        if not fixed:
            await asyncio.Event().wait()
        return f"paid {what}"

    async def agent(ctx: Context) -> Any:
        steps = [ctx.step(f"pay {w}", pay, w, timeout_s=0.2) for w in ("ana", "bo", "cy")]
        done = await asyncio.gather(*steps, return_exceptions=True)
        if any(isinstance(one, StepError) for one in done):
            raise ValueError("some are not known")
        return done

    return agent


async def test_all_doubts_of_one_fork_are_one_card_and_each_has_its_answer(
    tmp_path: Path,
) -> None:
    world = OutsideWorld()
    store = tmp_path / "runs.db"
    async with runtime_with(store, agent=three_at_once(world, fixed=False)) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.FAILED)
    async with runtime_with(store, agent=three_at_once(world, fixed=True)) as runtime:
        fork = await (await runtime.get("r1")).fork()
        name = await question(fork)
        [card] = await asked_of(runtime, fork)
        listed = load(card.details)["doubts"]
        assert [one["name"] for one in listed] == ["pay ana", "pay bo", "pay cy"]
        assert all("longer than 0.2 s" in one["known"] for one in listed)
        ana, bo, cy = (one["step"] for one in listed)
        await fork.answer(name, {ana: {"happened": "paid on Monday"}, bo: "run", cy: "perhaps"})
        again = await question(fork, nth=2)  # what was not answered is asked about again
        await fork.answer(again, "skip")
        assert await fork.result() == ["paid on Monday", "paid bo", None]
        assert len(await asked_of(runtime, fork)) == 2
        assert await (await fork.fork()).result() == ["paid on Monday", "paid bo", None]
    assert world.did == ["ana", "bo", "cy", "bo"]


async def test_one_word_answers_for_all_of_them(tmp_path: Path) -> None:
    world = OutsideWorld()
    store = tmp_path / "runs.db"
    async with runtime_with(store, agent=three_at_once(world, fixed=False)) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.FAILED)
    async with runtime_with(store, agent=three_at_once(world, fixed=True)) as runtime:
        fork = await (await runtime.get("r1")).fork()
        await fork.answer(await question(fork), "skip")
        assert await fork.result() == [None, None, None]
    assert world.did == ["ana", "bo", "cy"]


async def test_the_code_was_changed_where_something_may_have_happened(tmp_path: Path) -> None:
    world = OutsideWorld()

    def pays(amount: int, *, ends: bool) -> Agent:
        async def agent(ctx: Context) -> Any:
            try:
                return await ctx.step("pay", world.slow, amount, timeout_s=0.05)
            except StepError:
                if ends:
                    raise
                return await ctx.ask("what now?")

        return agent

    store = tmp_path / "runs.db"
    async with runtime_with(store, agent=pays(100, ends=False)) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
    world.go_on.set()
    async with runtime_with(store, agent=pays(200, ends=True)) as runtime:
        run = await runtime.get("r1")
        [asked] = (await run.snapshot()).open_questions()
        await run.answer(asked, "go on")  # its agent is entered anew, with other arguments
        name = await question(run, nth=2)
        assert name.startswith("changed-")
        assert world.did == []
        await run.answer(name, "skip")
        assert await run.result() is None


# --- which step is which ------------------------------------------------------------------------

SHORT: Final = 0


def test_the_hash_of_an_id_has_at_least_128_bits_and_it_fits_wherever_it_is_put() -> None:
    scope = Scope(ids=LONG_IDS)
    ids = [
        scope.step("transfer the money to the account of " + "x" * 90, ["bob"], None).id,
        scope.step("pay", ["bob"], None).id,
        scope.other("ask", "May I?"),
    ]
    for made in ids:
        tail = made.rpartition("-")[2]
        assert len(tail) * 5 >= 128
        assert len(f"doubt-{made}-999999") <= 64
    assert Scope(ids=LONG_IDS).step("pay", ["bob"], None).id == ids[1]  # and in every life the same


def test_the_digest_of_the_arguments_is_recorded_whole() -> None:
    assert len(Scope(ids=LONG_IDS).step("pay", ["bob"], None).digest) == 64


def begun(who: Identity, result: Any) -> list[Event]:
    started = StepStarted(step=who.id, name=who.name, digest=who.digest, scope=who.scope, place=1)
    return [started, StepFinished(step=who.id, result=dump(result))]


def memory_of(ids: int, *events: Event) -> Memory:
    born = Created(agent="agent", thread="t", ids=ids)
    memory = Memory()
    for event in (born, *events):
        memory._take(event)  # pyright: ignore[reportPrivateUsage]
    return memory


@pytest.mark.parametrize("ids", [SHORT, LONG_IDS])
def test_a_step_is_not_answered_with_what_another_gave_whose_id_is_the_same(ids: int) -> None:
    bob = Scope(ids=ids).step("pay", ["bob"], None)
    mallory = Scope(ids=ids).step("pay", ["mallory"], None)._replace(id=bob.id)  # a collision
    memory = memory_of(ids, *begun(bob, "paid bob"))
    assert memory.told_apart(bob) == bob
    other = memory.told_apart(mallory)
    assert other.id not in memory.steps
    memory = memory_of(ids, *begun(bob, "paid bob"), *begun(other, "paid mallory"))
    assert memory.steps[memory.told_apart(mallory).id].result == dump("paid mallory")


async def test_a_run_that_began_with_short_ids_goes_on_with_them_and_so_does_its_fork(
    tmp_path: Path,
) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> Any:
        await ctx.step("pay", world.do, "bob")
        return await ctx.ask("go on?")

    store = tmp_path / "runs.db"
    bob = Scope(ids=SHORT).step("pay", ["bob"], None)
    async with runtime_with(store) as runtime:
        born = Created(agent="agent", thread="r1")  # as every build before has written it
        await runtime.journal.append(Append(run_id="r1", events=[born], expected_seq=0))
    async with runtime_with(store, agent=agent) as runtime:
        run = await runtime.get("r1")
        await question(run)
        assert bob.id in (await run.snapshot()).steps
        fork = await run.fork()
        await fork.answer(await question(fork), "yes")
        assert await fork.result() == "yes"
    assert world.did == ["bob"]
