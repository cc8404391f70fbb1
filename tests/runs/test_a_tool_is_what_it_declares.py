"""A tool is what it declares: its effect, where it runs, what it is called with, and who it is."""

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, cast

import pytest

import pullcord
from pullcord import Call, Context, Retry, RunFailed, ToolContext
from pullcord.core.events import StepFailed, StepFinished, StepStarted
from pullcord.core.values import load
from pullcord.errors import InvalidInput, Unstorable
from pullcord.runtime.agents import Function
from pullcord.runtime.policy import Policy, Tool
from tests.declaring import declared_as
from tests.runs import some_tools
from tests.runs.observed_runs import happened, runtime_with, two_lives

Calls = Callable[[Context], Awaitable[Any]]


async def intent_of(call: Calls, **how: Any) -> StepStarted:
    """The one intent of an agent that calls one tool."""

    async def agent(ctx: Context) -> None:
        await call(ctx)

    async with runtime_with(agent=agent, **how) as runtime:
        run = await runtime.start("agent")
        await run.result()
        [intent] = await happened(runtime, run.id, StepStarted)
        return intent


async def refusal_of(call: Calls) -> str:
    """Why an agent could not even begin its call."""
    refused: list[str] = []

    async def agent(ctx: Context) -> None:
        with pytest.raises(InvalidInput) as told:
            await call(ctx)
        refused.append(str(told.value))

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.result()
        assert await happened(runtime, run.id, StepStarted) == []
    return refused[0]


# --- declaring ----------------------------------------------------------------------------------


async def test_a_tool_that_declares_nothing_is_treated_with_care() -> None:
    bare = pullcord.tool(some_tools.add)
    assert (bare.policy.effect, bare.policy.tries.attempts) == ("once", 1)
    intent = await intent_of(lambda ctx: ctx.tool(bare, 1))
    assert (intent.effect, intent.undoable, intent.run_in) == ("once", False, "process")
    assert (intent.tool, intent.where) == ("add", "tests.runs.some_tools:add")


def nothing(_call: Call) -> None:
    pass


@pytest.mark.parametrize(
    ("declared", "found"),
    [
        ({"effect": "none"}, {"effect": "none"}),
        ({"effect": "idempotent", "retry": 3}, {"effect": "idempotent"}),
        ({"undo": nothing}, {"undoable": True}),
        ({"run_in": "thread"}, {"run_in": "thread"}),
        ({"timeout_s": 60, "stop_grace_s": 0, "on_pause": "finish"}, {"run_in": "process"}),
    ],
)
async def test_what_a_tool_declares_stands_in_its_intent_however_it_was_declared(
    declared: dict[str, Any], found: dict[str, object]
) -> None:
    def call(ctx: Context) -> Awaitable[Any]:
        return ctx.tool(some_tools.add, 1)

    by_itself: Tool[..., Any] = declared_as(**declared)(some_tools.add)
    intents = [
        await intent_of(lambda ctx: ctx.tool(by_itself, 1)),
        await intent_of(call, tools={"add": declared}),
        await intent_of(call, tools={"add": Policy(**declared)}),
        await intent_of(call, tools={"add": by_itself}),
    ]
    assert all(intent == intents[0] for intent in intents)
    assert {name: getattr(intents[0], name) for name in found} == found


async def test_what_a_tool_says_of_itself_is_not_overruled_by_its_name() -> None:
    intent = await intent_of(
        lambda ctx: ctx.tool(some_tools.declared, 1), tools={"declared": {"effect": "none"}}
    )
    assert intent.effect == "idempotent"


def test_calling_a_tool_directly_just_calls_the_function() -> None:
    assert some_tools.declared(1) == 2
    assert some_tools.declared.__doc__ == "Says what it is."
    assert repr(some_tools.declared) == "<tool declared>"
    assert list(inspect.signature(some_tools.declared).parameters) == ["a"]


async def async_one(a: int) -> int:
    return a


def sync_one(a: int) -> int:
    return a


def no_call() -> None:
    pass


BAD: Final[dict[str, tuple[Any, dict[str, Any], str]]] = {
    "effect": (sync_one, {"effect": "twice"}, "its effect cannot be 'twice'"),
    "place": (sync_one, {"run_in": "moon"}, "it cannot run in 'moon'"),
    "blocks": (sync_one, {"run_in": "loop"}, "it is not async and would block the loop"),
    "retry": (sync_one, {"retry": 2}, "with the effect 'once' it cannot be retried"),
    "Retry": (sync_one, {"retry": Retry(attempts=2)}, "with the effect 'once' it cannot be retri"),
    "cut": (async_one, {"on_pause": "cancel"}, "with the effect 'once' a pause cannot cut it"),
    "undo": (sync_one, {"undo": no_call}, "its undo has to take one call"),
    "probe": (sync_one, {"probe": no_call}, "its probe has to take one call"),
    "still_valid": (sync_one, {"still_valid": no_call}, "its still_valid has to take one call"),
    "undo=3": (sync_one, {"undo": 3}, "its undo has to take one call"),
    "approve=True": (sync_one, {"approve": True}, "approve"),
    "approve typo": (sync_one, {"approve": "allways"}, "approve"),
    "on_pause typo": (sync_one, {"on_pause": "freez"}, "on_pause"),
    "on_redirect typo": (sync_one, {"on_redirect": "stop"}, "on_redirect"),
    "freeze a coroutine": (async_one, {"on_pause": "freeze"}, "freeze"),
    "freeze a thread": (sync_one, {"on_pause": "freeze", "run_in": "thread"}, "freeze"),
    "timeout text": (sync_one, {"timeout_s": "5"}, "timeout_s"),
    "timeout below zero": (sync_one, {"timeout_s": -1}, "timeout_s"),
    "grace below zero": (sync_one, {"stop_grace_s": -1}, "stop_grace_s"),
    "no attempt": (sync_one, {"retry": 0, "effect": "none"}, "retry"),
    "coroutine in a thread": (async_one, {"run_in": "thread"}, "thread"),
    "a generator": (some_tools.generator, {}, "generator"),
    "an async generator": (some_tools.async_generator, {}, "generator"),
    "not a function": ("pay", {}, "cannot be called"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_declaration_that_cannot_be_kept_is_refused_with_a_reason(name: str) -> None:
    function, declared, why = BAD[name]
    with pytest.raises(InvalidInput) as refused:
        pullcord.tool(**declared)(function)
    assert why in str(refused.value)
    assert "Nothing was changed. Use " in str(refused.value)


@pytest.mark.parametrize("declared", [{"colour": "red"}, {"timeout": 5, "Effect": "once"}])
async def test_what_no_tool_can_declare_is_refused_by_name(
    tmp_path: Path, declared: dict[str, Any]
) -> None:
    said = f"A tool cannot declare {', '.join(sorted(declared))}. Nothing was changed."
    with pytest.raises(InvalidInput, match=said):
        declared_as(**declared)
    store = tmp_path / "runs.db"
    with pytest.raises(InvalidInput, match=said):
        pullcord.open(store, tools={"add": declared})
    assert not store.exists(), "it was opened all the same, and nobody closes it"


async def test_a_policy_by_name_that_cannot_be_kept_is_refused_when_it_is_given() -> None:
    with pytest.raises(InvalidInput, match="its effect cannot be 'twice'"):
        pullcord.open(":memory:", tools={"add": {"effect": "twice"}})


# --- where it runs ------------------------------------------------------------------------------


def a_closure() -> Callable[[int], int]:
    def inner(a: int) -> int:
        return a

    return inner


def an_async_closure() -> Callable[[int], Awaitable[int]]:
    async def inner(a: int) -> int:
        return a

    return inner


PLACES: Final[dict[str, tuple[Callable[..., Any], str]]] = {
    "a function": (some_tools.add, "process"),
    "an async function": (some_tools.add_async, "loop"),
    "a static method": (some_tools.Desk.static, "process"),
    "an async method": (some_tools.Desk().async_method, "loop"),
    "an async closure": (an_async_closure(), "loop"),
    "a partial of an async function": (functools.partial(some_tools.add_async), "loop"),
    "an object that is async": (some_tools.AsyncDesk(), "loop"),
    "a class method": (some_tools.Desk.of_class, "thread"),
    "a method": (some_tools.Desk().method, "thread"),
    "an object": (some_tools.Desk(), "thread"),
    "a partial": (functools.partial(some_tools.add, b=0), "thread"),
    "a lambda": (lambda a: a, "thread"),  # pyright: ignore[reportUnknownLambdaType]
    "a closure": (a_closure(), "thread"),
    "a lambda around a coroutine": (lambda a: some_tools.add_async(a, 0), "thread"),  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
}
IN_THREADS: Final = [name for name, (_, place) in PLACES.items() if place == "thread"]


@pytest.mark.parametrize("name", PLACES)
async def test_a_foreign_function_runs_where_it_can_be_stopped_if_there_is_such_a_place(
    name: str,
) -> None:
    function, place = PLACES[name]
    results: list[Any] = []

    async def call(ctx: Context) -> None:
        results.append(await ctx.tool(function, 40))

    assert (await intent_of(call)).run_in == place
    assert results in ([40], [42])


@pytest.mark.parametrize("name", IN_THREADS)
async def test_a_declared_tool_that_no_process_could_find_is_refused(name: str) -> None:
    declared = pullcord.tool(PLACES[name][0])
    said = await refusal_of(lambda ctx: ctx.tool(declared, 40))
    assert "that cannot find its function, because it is not at the top of a module" in said
    assert "Nothing was begun. Move it there; or make it async; or declare run_in='thread'" in said


@pytest.mark.parametrize("name", IN_THREADS)
async def test_such_a_tool_runs_in_a_thread_if_it_says_so(name: str) -> None:
    declared = pullcord.tool(run_in="thread")(PLACES[name][0])
    assert (await intent_of(lambda ctx: ctx.tool(declared, 40))).run_in == "thread"


async def test_an_async_function_may_ask_for_a_process() -> None:
    declared = pullcord.tool(run_in="process")(some_tools.add_async)
    intent = await intent_of(lambda ctx: ctx.tool(declared, 1))
    assert intent.run_in == "process"


@pytest.mark.parametrize("function", [some_tools.generator, some_tools.async_generator])
async def test_a_foreign_generator_is_never_said_to_have_happened(
    tmp_path: Path, function: Callable[..., Any]
) -> None:
    """Calling it runs nothing of it."""
    path = tmp_path / "happened"

    async def agent(ctx: Context) -> Any:
        return await ctx.tool(function, str(path))

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        with pytest.raises(RunFailed, match="generator"):
            await run.result()
        failures = await happened(runtime, run.id, StepFailed)
    assert not path.exists()
    assert not [failure for failure in failures if failure.happened]


# --- what it is called with ---------------------------------------------------------------------

ADD: Final[Callable[..., Any]] = some_tools.add  # so that a type checker lets them be wrong
TAKES: Final[Callable[..., Any]] = some_tools.takes
NO_TOOL: Final[Callable[..., Any]] = cast("Any", "add")
ALIKE: Final[dict[str, list[Calls]]] = {
    "by place, by name, by default": [
        lambda ctx: ctx.tool(some_tools.add, 1),
        lambda ctx: ctx.tool(some_tools.add, 1, 2),
        lambda ctx: ctx.tool(some_tools.add, b=2, a=1),
    ],
    "positional only, variable": [
        lambda ctx: ctx.tool(some_tools.takes, 1, 2, 5, 6, third=3, x=1, y=2),
        lambda ctx: ctx.tool(some_tools.takes, 1, 2, 5, 6, y=2, x=1),
    ],
    "with a context": [
        lambda ctx: ctx.tool(some_tools.context),
        lambda ctx: ctx.tool(some_tools.context, path=""),
    ],
    "as JSON has it": [
        lambda ctx: ctx.tool(TAKES, 1, second=[(1, 2)]),
        lambda ctx: ctx.tool(TAKES, 1, [[1, 2]]),
    ],
    "by a key": [
        lambda ctx: ctx.tool(some_tools.add, 1, key="sum"),
        lambda ctx: ctx.tool(some_tools.add, 3, key="sum"),
    ],
}
UNLIKE: Final[dict[str, list[Calls]]] = {
    "arguments": [
        lambda ctx: ctx.tool(some_tools.add, 1, 2),
        lambda ctx: ctx.tool(some_tools.add, 2, 1),
    ],
    "a name": [
        lambda ctx: ctx.tool(some_tools.add, 1),
        lambda ctx: ctx.tool(some_tools.add_async, 1),
    ],
    "a branch": [
        lambda ctx: ctx.branch("x").tool(some_tools.add, 1),
        lambda ctx: ctx.branch("y").tool(some_tools.add, 1),
    ],
    "a key": [
        lambda ctx: ctx.tool(some_tools.add, 1, key="x"),
        lambda ctx: ctx.tool(some_tools.add, 1, key="y"),
    ],
}


@pytest.mark.parametrize("name", ALIKE)
async def test_the_same_call_is_the_same_step_however_it_is_written(name: str) -> None:
    intents = [await intent_of(call) for call in ALIKE[name]]
    assert len({intent.step for intent in intents}) == 1


@pytest.mark.parametrize("name", UNLIKE)
async def test_another_call_is_another_step(name: str) -> None:
    intents = [await intent_of(call) for call in UNLIKE[name]]
    assert len({intent.step for intent in intents}) == len(intents)


@pytest.mark.parametrize("place", ["process", "thread", "loop"])
async def test_arguments_arrive_as_they_were_meant(place: str) -> None:
    @functools.wraps(some_tools.takes)
    async def in_loop(*args: Any, **kwargs: Any) -> Any:
        return some_tools.takes(*args, **kwargs)

    function = in_loop if place == "loop" else some_tools.takes
    declared: Tool[..., Any] = declared_as(run_in=place)(function)

    async def agent(ctx: Context) -> Any:
        return await ctx.tool(declared, 1, 2, 5, 6, x=1)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == [1, 2, [5, 6], 3, {"x": 1}]
        [intent] = await happened(runtime, run.id, StepStarted)
    assert load(intent.args) == {
        "first": 1,
        "second": 2,
        "rest": [5, 6],
        "third": 3,
        "others": {"x": 1},
    }


IMPOSSIBLE: Final[dict[str, Calls]] = {
    "missing a required argument: 'a'": lambda ctx: ctx.tool(ADD),
    "too many positional arguments": lambda ctx: ctx.tool(ADD, 1, 2, 3),
    "unexpected keyword argument 'c'": lambda ctx: ctx.tool(ADD, 1, c=3),
    "'first'": lambda ctx: ctx.tool(TAKES, first=1, second=2),
    "'add' is not a tool: it cannot be called": lambda ctx: ctx.tool(NO_TOOL, 1),
    "does not say what it takes": lambda ctx: ctx.tool(max, 1, 2),
    "object has no JSON form": lambda ctx: ctx.tool(ADD, object()),
    "nan is not a JSON number": lambda ctx: ctx.tool(ADD, float("nan")),
}


@pytest.mark.parametrize("why", IMPOSSIBLE)
async def test_a_call_that_cannot_be_is_refused_before_anything_begins(why: str) -> None:
    said = await refusal_of(IMPOSSIBLE[why])
    assert why in said
    assert "Nothing was" in said


def named_like_ours(tool: int, key: int = 0) -> list[int]:
    return [tool, key]


async def test_a_parameter_may_be_called_like_one_of_ours() -> None:
    async def agent(ctx: Context) -> Any:
        call: Any = ctx.tool
        return await call(named_like_ours, tool=1)

    async with runtime_with(agent=agent) as runtime:
        assert await (await runtime.start("agent")).result() == [1, 0]


# --- what it is handed --------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["process", "thread", "loop"])
async def test_the_key_of_a_call_is_the_same_in_every_attempt(tmp_path: Path, place: str) -> None:
    path = tmp_path / "keys"
    again = {"effect": "idempotent", "retry": Retry(attempts=2, wait_s=0)}

    @declared_as(**again)
    async def context(ctx: ToolContext, path: str) -> Any:
        assert ctx.deps is None
        return some_tools.context(ctx, path)

    elsewhere = declared_as(**again, run_in=place if place != "loop" else "thread")
    declared = context if place == "loop" else elsewhere(some_tools.context)

    async def agent(ctx: Context) -> Any:
        return [await ctx.tool(declared, str(path)), await ctx.tool(declared, str(path))]

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        first, second = await run.result()
    assert (first["run"], first["attempt"], second["attempt"]) == ("r1", 2, 1)
    assert first["key"] == f"r1-{first['step']}"
    assert first["key"] != second["key"], "two calls share a key"
    keys = [line.split() for line in path.read_text().splitlines()]
    assert keys == [["1", first["key"]], ["2", first["key"]], ["1", second["key"]]]


async def test_the_key_of_a_call_is_the_same_in_every_life(tmp_path: Path) -> None:
    path, store = tmp_path / "keys", tmp_path / "runs.db"
    begun = asyncio.Event()

    @pullcord.tool(effect="idempotent")
    async def fetch(ctx: ToolContext) -> str:
        if some_tools.happened(str(path), ctx.idempotency_key):
            return "fetched"
        begun.set()
        return await asyncio.get_running_loop().create_future()

    async def agent(ctx: Context) -> Any:
        return await ctx.tool(fetch)

    hasty = pullcord.Timing(shutdown_grace_s=0)
    async with runtime_with(store, timing=hasty, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await begun.wait()
    async with runtime_with(store, agent=agent) as runtime:
        run = await runtime.get("r1")
        assert await run.result() == "fetched"
        attempts = [event.attempt for event in await happened(runtime, "r1", StepStarted)]
    assert attempts == [1, 2]
    keys = path.read_text().split()
    assert len(keys) == 2
    assert len(set(keys)) == 1


async def test_a_tool_in_this_process_finds_what_the_agent_depends_on() -> None:
    async def reads(ctx: ToolContext) -> Any:
        return ctx.deps

    async def agent(ctx: Context) -> Any:
        return await ctx.tool(reads)

    async with runtime_with(agent=pullcord.AgentConfig(agent, deps=lambda: {"db": 1})) as runtime:
        assert await (await runtime.start("agent")).result() == {"db": 1}


# --- what comes out of it, and who it is --------------------------------------------------------


@pytest.mark.parametrize("place", ["process", "thread"])
async def test_a_result_is_what_json_makes_of_it_in_every_life(tmp_path: Path, place: str) -> None:
    found: list[Any] = []
    elsewhere = declared_as(run_in=place)
    tools = [elsewhere(some_tools.draft), elsewhere(some_tools.pair)]

    async def agent(ctx: Context) -> None:
        found.append([await ctx.tool(tools[0], "bo"), await ctx.tool(tools[1])])
        await ctx.ask("go on?")

    await two_lives(tmp_path / "runs.db", agent, agent)
    assert found == [[{"to": "bo", "at": "2026-01-02T00:00:00Z"}, [1, ["x"]]]] * 2


async def test_a_finished_call_is_answered_in_the_next_life_and_not_done_again(
    tmp_path: Path,
) -> None:
    path = tmp_path / "effects"

    async def agent(ctx: Context) -> Any:
        done = [await ctx.tool(some_tools.happened, str(path), name) for name in "ab"]
        await ctx.ask("go on?")
        return [*done, await ctx.tool(some_tools.happened, what="c", path=str(path))]

    result, run = await two_lives(tmp_path / "runs.db", agent, agent)
    assert result == [False, True, True]
    assert path.read_text().split() == ["a", "b", "c"]
    assert [step.attempt for step in run.steps.values()] == [1, 1, 1]


async def test_repeated_calls_are_calls_of_their_own_also_at_once_in_branches(
    tmp_path: Path,
) -> None:
    path = tmp_path / "effects"

    async def agent(ctx: Context) -> Any:
        async def one(name: str) -> None:
            branch = ctx.branch(name)
            for _ in range(2):
                await branch.tool(some_tools.happened, str(path), "same")

        await asyncio.gather(*(one(name) for name in "xyz"))
        await ctx.ask("go on?")

    _, run = await two_lives(tmp_path / "runs.db", agent, agent)
    assert path.read_text().split() == ["same"] * 6
    assert len(run.steps) == 6


async def test_a_tool_with_a_policy_that_was_edited_meanwhile_is_still_the_same_step(
    tmp_path: Path,
) -> None:
    path = tmp_path / "effects"

    def version(**declared: Any) -> Function:
        async def agent(ctx: Context) -> Any:
            meant: Tool[..., Any] = declared_as(**declared)(some_tools.happened)
            done = await ctx.tool(meant, str(path), "a")
            await ctx.ask("go on?")
            return done

        return agent

    first, then = version(effect="none"), version(effect="once", run_in="thread")
    result, run = await two_lives(tmp_path / "runs.db", first, then)
    assert result is False
    assert path.read_text().split() == ["a"]
    assert len(run.steps) == 1


async def test_an_agent_is_told_what_a_tool_raised_and_the_first_time_also_by_whom() -> None:
    async def breaks() -> None:
        raise ZeroDivisionError("no")

    causes: list[BaseException | None] = []

    async def agent(ctx: Context) -> str:
        try:
            await ctx.tool(breaks)
        except pullcord.StepError as error:
            causes.append(error.__cause__)
            return str(error)
        return "?"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "Step 'breaks' failed: ZeroDivisionError: no"
        assert await happened(runtime, run.id, StepFinished) == []
    assert isinstance(causes[0], ZeroDivisionError)


async def test_a_tool_cannot_use_the_doors_of_its_agent() -> None:
    async def agent(ctx: Context) -> Any:
        async def sneaks() -> Any:
            return await ctx.tool(some_tools.add, 1)

        return await ctx.tool(sneaks)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        with pytest.raises(RunFailed, match=r"used ctx\.tool\(\)"):
            await run.result()
        [intent] = await happened(runtime, run.id, StepStarted)
    assert intent.name == "sneaks"


def test_what_cannot_be_stored_is_also_invalid_input() -> None:
    """So that one `except InvalidInput` is enough around a call."""
    assert issubclass(Unstorable, InvalidInput)
