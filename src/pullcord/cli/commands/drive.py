"""run, fork, continue, and resume where nobody drives: an agent from a file, driven right here."""

import asyncio
import json
import sys
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any, Final

from pullcord.cli.agent_files import load_agents
from pullcord.cli.agents_loop import in_a_loop
from pullcord.cli.arguments import text_of, value_of
from pullcord.cli.as_json import print_ack, print_refusal, print_said
from pullcord.cli.live.run_view import RunView, is_wanted
from pullcord.cli.local_runs import local_runs, whoami
from pullcord.cli.parser import FAILED, INTERRUPTED, REFUSED, store_path
from pullcord.cli.render.narration import Narration, point_out
from pullcord.cli.render.run_text import offers, plain, receipt_lines
from pullcord.cli.run_end import tell_end
from pullcord.cli.runtime_options import timing_of, webhooks
from pullcord.cli.standard_streams import put
from pullcord.cli.stop_signals import StopSignals
from pullcord.cli.verbs import command_of
from pullcord.client.secret_names import from_environment
from pullcord.core.continuing import said_next
from pullcord.core.events import Created
from pullcord.core.limits import caps_as_condition, parsed
from pullcord.core.states import TERMINAL, RunState
from pullcord.core.stops import StopShown
from pullcord.core.values import check_id
from pullcord.errors import InvalidInput
from pullcord.journal.stored_runs.run_records import START, Cursor, birth
from pullcord.journal.views.local_viewer import LocalViewer
from pullcord.runtime.agents import AgentConfig
from pullcord.runtime.handle import RunHandle
from pullcord.runtime.opening import open_runtime
from pullcord.runtime.runtime import Runtime
from pullcord.runtime.steps.identity import new_run_id
from pullcord.terminal.keymap import Keymap

_KEPT: Final = "It is kept as it is. Go on with: pullcord resume {run}"


def carry_out(asked: Any) -> int:
    match asked.verb:
        case "run":
            return _run(asked)
        case "fork":
            return _fork(asked)
        case "aside":
            return _aside(asked)
        case "undo":
            return _undo(asked)
        case _:
            return _continue(asked)


def drive_here(asked: Any) -> int:
    """Drive a run that nobody drives, if it says where its agent is."""
    born = _birth(asked)
    if born.target is None:
        print(
            f"No process knows {born.agent}. It is recorded; a process that was opened with "
            f"agents={{{born.agent!r}: ...}} goes on with it.",
            file=sys.stderr,
        )
        return 0
    agents, _ = load_agents(born.target, born.cwd)
    with local_runs(asked) as here:
        head, _ = here.run(asked.run)
    return _driven(asked, agents, asked.run, None, after=Cursor(head.seq))


def _run(asked: Any) -> int:
    agents, name = load_agents(asked.target, None)
    run_id = check_id(asked.run_id or new_run_id())
    if asked.input != "null" and not agents[name].wants_input:
        raise InvalidInput(
            f"{name} takes no input: it has only one parameter. Nothing was started. "
            f"Write it as: async def {name}(ctx, given)"
        )
    target = f"{Path(asked.target.rpartition(':')[0]).resolve()}:{name}"

    async def start(runtime: Runtime) -> RunHandle:
        return await runtime.start(
            name,
            value_of(asked.input),
            run_id=run_id,
            thread=asked.thread,
            by=whoami(asked.by),
            target=target,
            model=asked.model,
            limits=caps_as_condition(parsed(asked.limit)),
            on_exhausted=asked.on_exhausted,
        )

    return _driven(asked, agents, run_id, start)


def _fork(asked: Any) -> int:
    born = _birth(asked)

    async def fork(runtime: Runtime) -> RunHandle:
        return await runtime.fork(
            asked.run,
            at=asked.at,
            instruction=text_of(asked.instruction) if asked.instruction else None,
            by=whoami(asked.by),
            limits=caps_as_condition(parsed(asked.limit)),
            on_exhausted=asked.on_exhausted,
        )

    return _next(asked, born, fork)


def _aside(asked: Any) -> int:
    born = _birth(asked)

    async def ask(runtime: Runtime) -> RunHandle:
        return await runtime.fork(asked.run, aside=text_of(asked.question), by=whoami(asked.by))

    status = _next(asked, born, ask)
    with local_runs(asked) as here:
        _, run = here.run(asked.run)
    if run.state is RunState.PAUSED and not asked.json:
        print(f"{run.id} is paused as before. Go on with it: pullcord resume {run.id}")
    return status


def _continue(asked: Any) -> int:
    born = _birth(asked)
    with local_runs(asked) as here:
        _, run = here.run(asked.run)
    given = said_next(asked.run, None if asked.input is None else value_of(asked.input))

    async def start(runtime: Runtime) -> RunHandle:
        return await runtime.start(
            born.agent, given, thread=run.thread, by=whoami(asked.by), target=born.target
        )

    return _next(asked, born, start)


def _undo(asked: Any) -> int:
    """Record that it is to be undone; then do it here, unless somebody else is to."""
    born = _birth(asked)
    with local_runs(asked) as here:
        ack = here.command(asked.run, command_of(asked))
    if not ack.holds:
        print_refusal(asked, ack)
        return REFUSED
    if asked.detach or born.target is None:
        if asked.json:
            print_ack(asked, ack)
        else:
            print(f"Recorded. A process that knows {born.agent} undoes it.")
        return 0
    agents, _ = load_agents(born.target, born.cwd)

    async def undo() -> int:
        async with _opened(asked, agents, asked.run) as runtime:
            made = await (await runtime.get(asked.run)).receipt()
        print_said(asked, made, receipt_lines(made))
        return FAILED if made.could_not_undo else 0

    return in_a_loop(undo()).leave()


def _next(asked: Any, born: Created, make: Any) -> int:
    """Record a new run that follows from another; then drive it, unless it is only recorded."""

    async def record() -> str:
        known = {born.agent: AgentConfig(_nobody)}
        runtime = _opened(asked, known)
        runtime.drives = False
        async with runtime:
            return (await make(runtime)).id

    run_id = asyncio.run(record())
    print(f"Started {run_id} from {asked.run}.", file=sys.stderr)
    if asked.detach or born.target is None:
        print(run_id if not asked.json else json.dumps({"run": run_id}))
        return 0
    agents, _ = load_agents(born.target, born.cwd)
    return _driven(asked, agents, run_id, None)


def _opened(asked: Any, agents: dict[str, AgentConfig], only: str | None = None) -> Runtime:
    hooks = webhooks(asked)
    return open_runtime(
        store_path(asked.store),
        agents=agents,
        only=only,
        secrets=from_environment(),
        timing=timing_of(asked),
        notify=hooks,
        on_stop=hooks,
    )


async def _nobody(_ctx: Any) -> None:
    """Stands in for an agent that is named here and driven elsewhere."""


def _birth(asked: Any) -> Created:
    with local_runs(asked) as here:
        asked.run = here.find(asked.run)
        return here.read(lambda view: birth(view, asked.run, what="go on from"))


def _driven(
    asked: Any, agents: dict[str, AgentConfig], run_id: str, start: Any, *, after: Cursor = START
) -> int:
    """Drive it here; with a bar, if somebody sits in front of it."""
    if not is_wanted(asked):
        return in_a_loop(_drive(asked, agents, run_id, start, after=after)).leave()
    bound = Keymap(asked.keys)
    with RunView(store_path(asked.store), me=whoami(asked.by), bound=bound) as live:
        done = in_a_loop(_drive_live(asked, agents, run_id, start, after, live))
    return done.leave()


async def _drive_live(
    asked: Any,
    agents: dict[str, AgentConfig],
    run_id: str,
    start: Any,
    after: Cursor,
    live: RunView,
) -> int:
    loop, over = asyncio.get_running_loop(), asyncio.Event()
    async with _opened(asked, agents, run_id) as runtime:
        run = await start(runtime) if start else await runtime.get(run_id)
        live.began(
            run.id,
            watch=runtime.journal.changes.watch,
            over=lambda: _told(loop, over),
            after=after,
            hold_s=runtime.timing.hold_s,
        )
        await over.wait()
        if live.broken:
            _note(f"The bar has failed: {plain(str(live.broken))}. The run goes on.\n")
            return await _follow(asked, runtime, run, Cursor((await run.snapshot()).seq))
        if not live.leaves:
            return await _ended_live(asked, run, live.telling.last_words if live.telling else "")
        _note(f"Giving {run.id} back.\n")
        open_ones = (await run.snapshot()).open_questions()
    return _kept(run.id, open_ones)


def _told(loop: asyncio.AbstractEventLoop, over: asyncio.Event) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
        loop.call_soon_threadsafe(over.set)


async def _ended_live(asked: Any, run: RunHandle, said: str) -> int:
    """Say what it has left behind, and how to go on."""
    made, ended = await run.receipt(), await run.snapshot()
    status = await _ended(asked, run, said, is_told=True)
    _note("".join(f"{line}\n" for line in receipt_lines(made)))
    _note("".join(f"  {'next' if not at else '':<15}{o}\n" for at, o in enumerate(offers(ended))))
    return status


async def _drive(
    asked: Any, agents: dict[str, AgentConfig], run_id: str, start: Any, *, after: Cursor = START
) -> int:
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()
    says, leaves = f"Giving {run_id} back.", _KEPT.format(run=run_id)
    with StopSignals(lambda: _told(loop, stopped), says=says, leaves=leaves):
        return await _drive_until(stopped, asked, agents, run_id, start, after)


async def _drive_until(
    stopped: asyncio.Event,
    asked: Any,
    agents: dict[str, AgentConfig],
    run_id: str,
    start: Any,
    after: Cursor,
) -> int:
    async with _opened(asked, agents, run_id) as runtime:
        run = await start(runtime) if start else await runtime.get(run_id)
        following = asyncio.create_task(_follow(asked, runtime, run, after))
        stopping = asyncio.create_task(stopped.wait())
        await asyncio.wait({following, stopping}, return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if following.done():
            return following.result()
        following.cancel()
        open_ones = (await run.snapshot()).open_questions()
    return _kept(run.id, open_ones)


def _kept(run_id: str, open_ones: list[str]) -> int:
    _note(f"{_KEPT.format(run=run_id)}\n")
    for question in open_ones:
        _note(f"It waits for: pullcord answer {run_id} {question} VALUE\n")
    return INTERRUPTED


def _print(text: str) -> None:
    put(sys.stdout, text)  # if whoever read it has had enough, the run goes on


def _note(text: str) -> None:
    print(text, end="", file=sys.stderr, flush=True)


async def _follow(asked: Any, runtime: Runtime, run: RunHandle, after: Cursor) -> int:
    noted: list[StopShown] = []
    since = (await run.snapshot()).seq
    me = whoami(getattr(asked, "by", None))
    reader = LocalViewer(me, "terminal", since=since, noted=noted.append)
    telling = Narration(run.id, as_json=asked.json, says=_print, tells=_note, reader=reader)
    if not asked.json:
        verb = "goes on" if after.seq else "started"
        print(f"{run.id} {verb}. To stop it: pullcord cancel {run.id}", file=sys.stderr)
    async with aclosing(run.events(after=after)) as events:
        async for cursor, item in events:
            telling.tell(cursor, item)
            point_out(asked, run.id, item)
            while noted:
                await runtime.journal.stop_log.note(noted.pop(), run.id)
    return await _ended(asked, run, telling.last_words)


async def _ended(asked: Any, run: RunHandle, said: str, *, is_told: bool = False) -> int:
    ended = await run.wait_for(*TERMINAL)
    result = await run.result() if ended.state is RunState.COMPLETED else None
    return tell_end(asked, ended, result, said, is_told=is_told)
