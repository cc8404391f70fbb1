"""What people get wrong at first is refused where they wrote it, with what to write instead."""

import gc
import json
import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, Retry, RunFailed, Runtime
from pullcord.core.conditions import Condition, Facts, Used
from pullcord.core.limits import check_condition
from pullcord.errors import InvalidInput, NotEntered
from pullcord.limits import Deadline, MaxSteps, MaxToolCalls, Price, Spent, Tokens, WorkingTime
from pullcord.runtime.policy import policy_of
from pullcord.server import Grant, Server, app
from tests.runs.observed_runs import OutsideWorld, question, runtime_with


async def report(ctx: Context) -> str:
    return "done"


async def asks_nobody() -> str:
    return "done"


async def asks(ctx: Context) -> str:
    await ctx.ask("go on?")
    return "done"


# --- opening ---


@pytest.mark.parametrize("agents", [[report], (report,), {report}, "report", report])
def test_agents_without_names(agents: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r'agents=\{"report": report\}'):
        pullcord.open(tmp_path / "s.db", agents=agents)
    assert not list(tmp_path.iterdir())


async def takes_nothing() -> None: ...


async def takes_three(ctx: Context, given: Any, more: Any) -> None: ...


async def needs_a_keyword(ctx: Context, *, region: str) -> None: ...


async def only_keywords(*, ctx: Context) -> None: ...


@pytest.mark.parametrize("agent", [takes_nothing, takes_three, needs_a_keyword, only_keywords])
def test_an_agent_that_cannot_be_called(agent: Any, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=rf"async def {agent.__name__}\(ctx, input\)"):
        pullcord.open(tmp_path / "s.db", agents={"agent": agent})
    assert not list(tmp_path.iterdir())


async def test_agents_that_can() -> None:
    async def any_places(*given: Any) -> int:
        return len(given)

    async def more(ctx: Context, given: Any = None, unit: str = "eur", **rest: Any) -> str:
        return unit

    class Desk:
        async def agent(self, ctx: Context) -> str:
            return "of the desk"

    async with runtime_with(places=any_places, more=more, desk=Desk().agent) as runtime:
        assert await (await runtime.start("more")).result() == "eur"
        assert await (await runtime.start("desk")).result() == "of the desk"


async def test_a_runtime_that_nobody_has_entered(tmp_path: Path) -> None:
    """It has opened nothing, and says so whatever it is asked."""
    files, threads = os.listdir("/proc/self/fd"), threading.enumerate()
    runtime = pullcord.open(tmp_path / "s.db", agents={"report": report}, on_stop=print)
    asked: dict[str, Callable[[], Any]] = {
        "start": lambda: runtime.start(report),
        "get": lambda: runtime.get("r1"),
        "list": runtime.list,
        "fork": lambda: runtime.fork("r1", by="ana"),
        "forget": lambda: runtime.forget("r1"),
        "journal": lambda: runtime.journal,
        "clock": lambda: runtime.clock,
    }
    assert asked.keys() == {n for n in vars(Runtime) if n[0] != "_"} - {"aclose"}
    for ask in asked.values():
        with pytest.raises(NotEntered, match="async with runtime"):
            await ask()
    assert (os.listdir("/proc/self/fd"), threading.enumerate()) == (files, threads)
    await runtime.aclose()
    assert not list(tmp_path.iterdir())


async def test_a_server_of_a_runtime_that_nobody_has_entered(tmp_path: Path) -> None:
    """An app is mounted before its host is up: asked too early, it says so, and works later."""
    runtime = pullcord.open(tmp_path / "s.db", agents={"report": report})
    served = app(runtime, authorize=lambda _request: Grant(by="ana", right="view"))
    status, body = await asked_for(served, "/runs")
    assert (status, json.loads(body)["code"]) == (503, "not_entered")
    async with runtime:
        assert (await asked_for(served, "/runs"))[0] == 200
        served.close()


async def asked_for(served: Server, path: str) -> tuple[int, bytes]:
    """What an ASGI app answers to a GET."""
    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": path, "query_string": b""}
    scope["headers"] = [(b"host", b"here")]
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    await served(scope, receive, send)
    return sent[0]["status"], b"".join(one.get("body", b"") for one in sent[1:])


async def test_a_runtime_is_entered_once(tmp_path: Path) -> None:
    async with pullcord.open(tmp_path / "s.db", agents={"report": report}) as runtime:
        with pytest.raises(InvalidInput, match=r"entered before.*pullcord\.open"):
            await runtime.__aenter__()


def test_the_public_names_can_be_completed() -> None:
    assert {"open", "tool", "Context", "guard"} <= set(dir(pullcord))
    assert not [name for name in dir(pullcord) if name.startswith("_") and name != "__version__"]


# --- in an agent ---


async def told_by(agent: Any) -> str:
    async with runtime_with(agent=agent) as runtime:
        with pytest.raises(RunFailed) as failed:
            await (await runtime.start("agent", run_id="r1")).result()
    return str(failed.value)


async def test_a_step_that_was_called_instead_of_handed_over() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        await ctx.step("w", world.do("a"))  # pyright: ignore[reportArgumentType]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        said = await told_by(agent)
        gc.collect()
    assert "it was given do(...), which is called already" in said
    assert "ctx.step('w', do, ...)" in said
    assert world.did == []


@pytest.mark.parametrize("inside", ["step", "say", "ask", "tool", "spawn"])
async def test_a_context_that_is_used_inside_a_step(inside: str) -> None:
    async def agent(ctx: Context) -> None:
        async def work() -> None:
            match inside:
                case "step":
                    await ctx.step("inner", asks_nobody)
                case "say":
                    await ctx.say("hello")
                case "ask":
                    await ctx.ask("ok?")
                case "tool":
                    await ctx.tool(asks_nobody)
                case _:
                    await ctx.spawn("agent")

        await ctx.step("outer", work)

    said = await told_by(agent)
    assert f"Step 'outer' used ctx.{inside}(): inside a step or a tool only" in said
    assert "before or after the step" in said


async def test_a_forgotten_await_names_the_call() -> None:
    async def agent(ctx: Context) -> str:
        ctx.step("charge the card", asks_nobody)  # pyright: ignore[reportUnusedCoroutine]
        ctx.tool(asks_nobody)  # pyright: ignore[reportUnusedCoroutine]
        return "done"

    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        async with runtime_with(agent=agent) as runtime:
            await (await runtime.start("agent")).result()
        gc.collect()
    said = [str(warning.message) for warning in seen]
    assert any("ctx.step('charge the card', ...)' was never awaited" in one for one in said)
    assert any("ctx.tool(asks_nobody, ...)' was never awaited" in one for one in said)


# --- numbers ---

NOT_COUNTS: list[Any] = ["4", 4.5, -1, True, None, float("nan"), float("inf")]
NOT_AMOUNTS: list[Any] = ["4", -1, 0, True, None, float("nan"), float("inf")]


@pytest.mark.parametrize("given", NOT_COUNTS, ids=repr)
@pytest.mark.parametrize("kind", [MaxSteps, MaxToolCalls, Tokens])
def test_a_count_is_a_whole_number_where_it_is_written(kind: Any, given: Any) -> None:
    with pytest.raises(InvalidInput, match=rf"{kind.__name__} cannot be .* a whole number"):
        kind(given)


@pytest.mark.parametrize("given", NOT_AMOUNTS, ids=repr)
def test_an_amount_is_a_number_above_nothing_where_it_is_written(given: Any) -> None:
    with pytest.raises(InvalidInput, match=r"Spent cannot be .* a number above 0"):
        Spent(usd=given)
    with pytest.raises(InvalidInput, match=r"WorkingTime cannot be .* a number above 0"):
        WorkingTime(given)


@pytest.mark.parametrize(
    "limit",
    [
        MaxSteps(10**20),
        Tokens(10**300),
        Spent(usd=1e303),
        WorkingTime(1e300),
        Deadline(in_s=1e300),
        Deadline(at_ms=10**40),
        Spent(usd=1, price=Price(1e300, 1)),
        Spent(usd=1, price=Price(1, float("inf"))),
        MaxSteps(1) | ~Spent(usd=1e303),
    ],
    ids=str,
)
def test_a_number_that_no_record_holds_is_no_limit(limit: Condition) -> None:
    with pytest.raises(InvalidInput, match="cannot be a limit"):
        check_condition(limit)


ODD: list[Any] = [1e303, float("inf"), float("nan"), -1, True, "80", 10**400, None, [1]]


@pytest.mark.parametrize("cap", ["steps", "usd", "working_s", "tokens"])
@pytest.mark.parametrize("given", ODD, ids=lambda given: repr(given)[:20])
async def test_a_raise_is_refused_when_it_is_asked(cap: str, given: Any) -> None:
    limits = MaxSteps(10) | Spent(usd=1) | WorkingTime(60) | Tokens(100)
    async with runtime_with(agent=asks) as runtime:
        run = await runtime.start("agent", limits=limits)
        with pytest.raises(InvalidInput, match="Nothing was changed"):
            await run.raise_limits({cap: given})
        assert (await run.raise_limits({cap: 1e6})).holds
        await run.answer(await question(run), "yes")
        assert await run.result() == "done"


def test_what_an_older_build_stored_still_counts() -> None:
    """It raised `usd=1e303`, and every look at the run failed from then on."""
    assert not Spent(usd=1e303).holds(Facts(Used(usd_micros=10**9)))


@pytest.mark.parametrize(
    "spent",
    [
        {"usd": 1e303},
        {"usd": float("inf")},
        {"usd": float("nan")},
        {"usd": -1},
        {"usd": True},
        {"usd": "1"},
        {"tokens_in": -5},
        {"tokens_out": 10**30},
        {"tokens_in": 1.5},
    ],
    ids=str,
)
async def test_what_cannot_be_counted_is_not_spent(spent: Any) -> None:
    async def agent(ctx: Context) -> Any:
        with pytest.raises(InvalidInput, match="Nothing was counted"):
            await ctx.spent(**spent)
        await ctx.spent(usd=0.5)
        return "done"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "done"
        assert (await run.snapshot()).cost.usd_micros == 500_000


@pytest.mark.parametrize(
    "policy",
    [
        {"approve_within_s": float("inf")},
        {"approve_within_s": 1e303},
        {"effect": "none", "retry": Retry(wait_s=float("nan"))},
        {"effect": "none", "retry": Retry(wait_s=-1)},
    ],
    ids=str,
)
def test_a_policy_that_could_not_be_kept_is_refused_at_open(policy: Any) -> None:
    with pytest.raises(InvalidInput, match="cannot be declared like that"):
        pullcord.open(":memory:", tools={"pay": policy_of(policy)})


def test_the_thousandth_attempt_waits_as_long_as_the_tenth() -> None:
    assert Retry(attempts=5000).wait(4000) == Retry().wait(10) == 30.0
