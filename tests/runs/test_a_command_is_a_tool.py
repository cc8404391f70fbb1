"""A command is a tool: it is run in a process tree of its own, its output is shown as it comes and
bounded, and what it left is its result."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, cast

import msgspec
import pytest

import pullcord
from pullcord import Context, RunState, Runtime, StepError
from pullcord.core.events import StepFailed, StepStarted, TextEnded
from pullcord.core.values import load
from pullcord.errors import InvalidInput
from pullcord.runtime.tools.tool_call import Command, CommandResult
from tests.runs.observed_runs import happened, runtime_with, shown, two_lives

GIB: Final = 1 << 30
KEPT: Final = 2 * 64 * 1024  # of each stream: its beginning and its end
Calls = Callable[[Context], Awaitable[Any]]


async def result_of(call: Calls) -> CommandResult:
    async def agent(ctx: Context) -> Any:
        return await call(ctx)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        return msgspec.convert(await run.result(), CommandResult)


async def refusal_of(call: Calls, error: type[Exception]) -> tuple[str, list[StepFailed]]:
    """What an agent is told of a command that cannot be run, and what is recorded of it."""

    async def agent(ctx: Context) -> str:
        with pytest.raises(error) as told:
            await call(ctx)
        assert (await ctx.exec("echo", "next")).stdout == "next\n"
        return str(told.value)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        return await run.result(), await happened(runtime, run.id, StepFailed)


# --- what it is given, and what it leaves -------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "given", "expected"),
    [
        (["true"], {}, CommandResult(status=0)),
        (["sh", "-c", "echo a; echo b >&2; exit 3"], {},
         CommandResult(status=3, stdout="a\n", stderr="b\n")),
        (["sh", "-c", "kill -9 $$"], {}, CommandResult(status=-9)),
        (["cat"], {"input": "grüße\n"}, CommandResult(status=0, stdout="grüße\n")),
        (["cat"], {}, CommandResult(status=0)),
        (["pwd"], {"cwd": "/"}, CommandResult(status=0, stdout="/\n")),
        (["sh", "-c", "echo $X-$HOME"], {"env": {"X": "1", "HOME": "2"}},
         CommandResult(status=0, stdout="1-2\n")),
        (["echo", "-n", "", " ", "*", "$X"], {}, CommandResult(status=0, stdout="   * $X")),
        (["printf", r"\377\376ok\000"], {}, CommandResult(status=0, stdout="��ok�")),
        (["printf", "x"], {"effect": "none", "timeout_s": 60},
         CommandResult(status=0, stdout="x")),
    ],
)  # fmt: skip
async def test_a_command_gets_what_it_is_given_and_leaves_its_status_and_output(
    argv: list[str], given: dict[str, Any], expected: CommandResult
) -> None:
    result = await result_of(lambda ctx: ctx.exec(*argv, **given))
    assert result == expected
    assert result.ok == (expected.status == 0)


async def test_a_million_bytes_of_input_arrive_whole() -> None:
    text = "x" * 10**6
    assert (await result_of(lambda ctx: ctx.exec("wc", "-c", input=text))).stdout == "1000000\n"


async def test_a_status_that_is_not_zero_is_a_result_and_not_an_error() -> None:
    async def agent(ctx: Context) -> Any:
        return (await ctx.exec("false")).ok

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() is False
        assert (await run.receipt()).done == ("false",)


async def test_what_a_command_has_left_is_the_same_in_the_next_life(tmp_path: Path) -> None:
    async def agent(ctx: Context) -> Any:
        left = [await ctx.exec("echo", "a"), await ctx.tool(pullcord.shell, "echo b; exit 2")]
        await ctx.ask("go on?")
        return [f"{type(one).__name__} {one.status} {one.stdout}" for one in left]

    result, _ = await two_lives(tmp_path / "runs.db", agent, agent)
    assert result == ["CommandResult 0 a\n", "CommandResult 2 b\n"]


async def test_a_line_for_the_shell_is_a_tool_called_shell() -> None:
    async def agent(ctx: Context) -> Any:
        return await ctx.tool(pullcord.shell, "echo $((6 * 7)) | cat")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert (await run.result())["stdout"] == "42\n"
        [intent] = await happened(runtime, run.id, StepStarted)
    assert (intent.tool, intent.run_in, intent.effect) == ("shell", "process", "once")
    assert load(intent.args) == {"command": "echo $((6 * 7)) | cat"}


@pullcord.tool(command=True, effect="none")
def lists(folder: str) -> list[str]:
    return ["ls", folder]


@pullcord.tool(command=True, effect="none")
def lists_in(ctx: pullcord.ToolContext, folder: str) -> Command:
    return Command(["sh", "-c", 'ls; cat; echo "$KEY"'], folder, {"KEY": ctx.step}, "given\n")


async def test_a_tool_may_say_which_command_is_to_be_run(tmp_path: Path) -> None:
    (tmp_path / "found").touch()
    assert (await result_of(lambda ctx: ctx.tool(lists, str(tmp_path)))).stdout == "found\n"


async def test_such_a_tool_may_want_its_context_too(tmp_path: Path) -> None:
    (tmp_path / "found").touch()
    found = (await result_of(lambda ctx: ctx.tool(lists_in, str(tmp_path)))).stdout.split()
    assert found[:2] == ["found", "given"]
    assert found[2].startswith("lists-in-")


def says_what(what: Any) -> Any:
    return what


@pytest.mark.parametrize("what", [[], "ls", [1], None, ["ls", "a\0b"]])
async def test_a_tool_that_says_no_command_fails_and_nothing_has_begun(what: Any) -> None:
    meant = pullcord.tool(command=True)(says_what)
    told, [failed] = await refusal_of(lambda ctx: ctx.tool(meant, what), StepError)
    assert "does not say which command to run" in told
    assert "Nothing was begun." in told
    assert failed.happened == ""


# --- what cannot be run -------------------------------------------------------------------------

RED: Final = cast("Any", {"colour": "red"})

LONG: Final = "x" * 200_000  # longer than the kernel takes one argument to be
UNABLE: Final[dict[str, tuple[str, Calls]]] = {
    "no such command": ("no-such-command", lambda ctx: ctx.exec("no-such-command")),
    "a directory": ("/tmp", lambda ctx: ctx.exec("/tmp")),
    "no such folder": ("/no/such", lambda ctx: ctx.exec("true", cwd="/no/such")),
    "a NUL in the environment": ("null byte", lambda ctx: ctx.exec("true", env={"A": "\0"})),
    "too long": ("too long", lambda ctx: ctx.exec("true", LONG)),
}
REFUSED: Final[dict[str, tuple[str, Calls]]] = {
    "nothing": ("The command cannot be used: it is empty", lambda ctx: ctx.exec()),
    "no name": ("The command cannot be used: it is empty", lambda ctx: ctx.exec("")),
    "only a folder": ("The command cannot be used: it is empty", lambda ctx: ctx.exec("bin/")),
    "a NUL in its name": ("it has a NUL character", lambda ctx: ctx.exec("l\0s")),
    "a NUL": ("it has a NUL character", lambda ctx: ctx.exec("echo", "a\0b")),
    "a number": ("it is int, not text", lambda ctx: ctx.exec("echo", cast("Any", 1))),
    "half a character": ("half of a surrogate pair", lambda ctx: ctx.exec("echo", "\ud800")),
    "no policy": (
        "A tool cannot declare colour",
        lambda ctx: ctx.exec("echo", **RED),
    ),
}


@pytest.mark.parametrize("name", UNABLE)
async def test_a_command_that_cannot_be_run_fails_and_says_why(name: str) -> None:
    why, call = UNABLE[name]
    told, [failed] = await refusal_of(call, StepError)
    assert why in told
    assert failed.happened == "", "nothing of it has begun"


@pytest.mark.parametrize("name", REFUSED)
async def test_a_command_that_is_none_is_refused_before_anything_begins(name: str) -> None:
    why, call = REFUSED[name]
    told, failed = await refusal_of(call, InvalidInput)
    assert why in told
    assert not failed


async def test_arguments_that_the_kernel_takes_arrive_also_if_they_are_many() -> None:
    """Half a million bytes of them, and whatever else is running goes on."""

    async def agent(ctx: Context) -> Any:
        waiting = asyncio.create_task(ctx.branch("other").exec("cat", input="still there"))
        many = await ctx.exec("sh", "-c", "echo $#", *["x" * 100_000] * 5)
        return [many.stdout, (await waiting).stdout]

    async with runtime_with(agent=agent) as runtime:
        assert await (await runtime.start("agent")).result() == ["4\n", "still there"]


# --- what it puts out ---------------------------------------------------------------------------


async def test_output_is_shown_as_it_comes_and_kept_as_that_of_its_step(tmp_path: Path) -> None:
    go_on = tmp_path / "go-on"

    async def agent(ctx: Context) -> Any:
        line = f"echo first; echo oops >&2; while [ ! -e {go_on} ]; do sleep 0.01; done; echo last"
        return await ctx.tool(pullcord.shell, line)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        said = await shown(run, "first\n", "oops\n")
        assert (await run.snapshot()).state is RunState.RUNNING
        go_on.touch()
        left = await run.result()
        [ended] = await happened(runtime, run.id, TextEnded)
        [intent] = await happened(runtime, run.id, StepStarted)
    assert (left["stdout"], left["stderr"]) == ("first\nlast\n", "oops\n")
    assert ended.text == said + "last\n"
    assert ended.complete
    assert ended.step == intent.step


async def said_before(runtime: Runtime, thread: str) -> list[str]:
    """What the agent of a next run on this thread finds to have been said."""
    run = await runtime.start("next", thread=thread)
    return await run.result()


async def reads_history(ctx: Context) -> Any:
    return [said.text for turn in await ctx.history() for said in turn.said]


async def test_what_a_tool_has_put_out_is_not_what_its_agent_has_said() -> None:
    async def agent(ctx: Context) -> None:
        await ctx.say("I look.")
        await ctx.exec("echo", "noise")

    async with runtime_with(agent=agent, next=reads_history) as runtime:
        run = await runtime.start("agent", thread="t1")
        await run.result()
        assert await said_before(runtime, "t1") == ["I look."]


async def talks_and_hangs(ctx: Context) -> None:
    await ctx.say("I look.")
    await ctx.tool(pullcord.shell, "echo noise; sleep 60")


async def test_nor_is_what_a_cancelled_tool_has_put_out() -> None:
    async with runtime_with(agent=talks_and_hangs, next=reads_history) as runtime:
        run = await runtime.start("agent", thread="t1")
        await shown(run, "noise\n")
        await run.cancel(by="ana")
        receipt = await run.receipt()
        ended = await happened(runtime, run.id, TextEnded)
        assert await said_before(runtime, "t1") == ["I look."]
    assert receipt.partial_text == ("noise\n",)
    assert [(text.text, text.complete, bool(text.step)) for text in ended] == [
        ("I look.", True, False),
        ("noise\n", False, True),
    ]


async def test_nor_is_what_a_tool_had_put_out_when_its_process_was_shut_down(
    tmp_path: Path,
) -> None:
    store = tmp_path / "runs.db"
    hasty = pullcord.Timing(shutdown_grace_s=0, stop_grace_s=0)
    async with runtime_with(store, timing=hasty, agent=talks_and_hangs) as runtime:
        run = await runtime.start("agent", thread="t1", run_id="r1")
        await shown(run, "noise\n")
    async with runtime_with(store, agent=talks_and_hangs, next=reads_history) as runtime:
        run = await runtime.get("r1")
        await run.cancel(by="ana")
        await run.wait_for(RunState.CANCELLED)
        assert await said_before(runtime, "t1") == ["I look."]


def memory_peak() -> int:
    """The most memory that this process has had since `forget_peak`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("the kernel does not say")


def forget_peak() -> int:
    Path("/proc/self/clear_refs").write_text("5")
    return memory_peak()


async def test_a_gigabyte_of_output_costs_little_memory_and_is_not_kept() -> None:
    before = forget_peak()

    async def agent(ctx: Context) -> Any:
        return await ctx.exec("head", "-c", str(GIB), "/dev/zero")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        left = msgspec.convert(await run.result(), CommandResult)
        [ended] = await happened(runtime, run.id, TextEnded)
    assert left.ok
    assert left.dropped_bytes == GIB - KEPT
    assert f"[… {left.dropped_bytes:,} bytes not kept …]" in left.stdout
    assert len(left.stdout) < KEPT + 100
    assert "more than is shown here" in ended.text
    assert len(ended.text) < 300_000
    assert memory_peak() - before < 64 << 20


async def test_of_long_output_the_beginning_and_the_end_are_kept() -> None:
    left = await result_of(lambda ctx: ctx.tool(pullcord.shell, "seq 1 200000; seq 1 9 >&2"))
    kept = left.stdout.splitlines()
    assert kept[:3] == ["1", "2", "3"]
    assert kept[-3:] == ["199998", "199999", "200000"]
    assert left.stderr.split() == list("123456789")
    whole = sum(len(f"{number}\n") for number in range(1, 200_001))
    assert left.dropped_bytes == whole - KEPT


async def test_output_nobody_reads_to_its_end_does_not_hold_up_the_cancel() -> None:
    async def agent(ctx: Context) -> None:
        await ctx.exec("yes")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await shown(run, "y\n" * 5000)
        await run.cancel(by="ana")
        receipt = await run.receipt()
    assert (receipt.interrupted, receipt.rung) == (("yes",), "terminated")
    assert set(receipt.partial_text[0].splitlines()[:-1]) == {"y"}


async def test_what_a_command_leaves_running_is_killed_and_counted() -> None:
    left = await result_of(lambda ctx: ctx.tool(pullcord.shell, "sleep 60 & sleep 61 & echo x"))
    assert (left.status, left.stdout, left.left_behind) == (0, "x\n", 2)
