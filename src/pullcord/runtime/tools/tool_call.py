"""One attempt of a tool call, in the loop, in a process or in a thread."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, Generic, TypeAlias

import msgspec

from pullcord.core.calls import Call, Happened, ToolContext, invoke
from pullcord.core.events import RunIn, TextEnded
from pullcord.core.run import Run, output_part
from pullcord.core.text.secrets import names_a_secret
from pullcord.core.values import NULL, Json, dump, load
from pullcord.errors import InvalidInput
from pullcord.runtime.agents import Result
from pullcord.runtime.doors.step import Permit, Probed, Wish, carry_out_step
from pullcord.runtime.driving.guard_verdicts import pass_or_cut, trip
from pullcord.runtime.driving.host_calls import HostCalls
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.driving.tool_functions import about, answer_in, in_thread
from pullcord.runtime.policy import Tool, file_of, wants_context
from pullcord.runtime.processes.thread_stop import ThreadStop
from pullcord.runtime.processes.tool_output import Output
from pullcord.runtime.processes.warden_client import Process, ToolEnd, address_of, encoded
from pullcord.runtime.steps.failures import Cut, Lost, ToolFailed, Vanished
from pullcord.runtime.steps.failures import ResultLost as HappenedUnreadably
from pullcord.runtime.steps.flight import Flight
from pullcord.runtime.steps.identity import Identity
from pullcord.runtime.steps.manner import Manner
from pullcord.runtime.steps.orders import STOPS
from pullcord.runtime.tools.approvals import ApprovalGrant, approved, withdraw_cards
from pullcord.runtime.tools.lost_memory import warn_of_lost_memory
from pullcord.warden.worker import Given

_CHECK_S: Final = 30.0
Perform: TypeAlias = "Callable[[dict[str, Any], Natively], Awaitable[Any]]"


class Command(msgspec.Struct, frozen=True):
    """A command to run. The function of a tool with `command=True` may return one."""

    argv: list[str]
    cwd: str | None = None
    env: dict[str, str] | None = None
    input: str = ""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The exit status of a command (minus a signal), and its output up to a bound."""

    status: int
    stdout: str = ""
    stderr: str = ""
    dropped_bytes: int = 0  # of both streams, not kept
    left_behind: int = 0  # processes that it had left running, and that were killed

    @property
    def ok(self) -> bool:
        return self.status == 0


class ToolCall:
    """One call of a tool in one run, with everything that a step needs to carry it out.

    `perform` carries out a tool of another library, where its adapter says (`run_in`). It receives
    the arguments, and a way to call the function as this runtime would. `is_overtaken` says whether
    a redirect keeps the call from beginning. Then nobody is asked to approve it.
    """

    def __init__(
        self,
        live: LiveRun,
        tool: Tool[..., Any],
        identity: Identity,
        args: dict[str, Any],
        *,
        deps: Any = None,
        perform: "Perform | None" = None,
        run_in: RunIn = "",
        is_overtaken: Callable[[Run], bool] = lambda _: False,
    ) -> None:
        self._live, self._tool, self._identity = live, tool, identity
        self._perform, self._is_overtaken = perform, is_overtaken
        self._secrets = live.services.secrets
        # A copy that nobody can change; only the tool itself sees it unsealed.
        self._args: dict[str, Any] = load(self._secrets.seal_json(dump(args)))
        self._deps = deps
        self._run_in: RunIn = run_in or place_of(tool)
        first = live.memory.first_begun_in.get(identity.id, live.run.id)
        self._key = f"{first}-{identity.id}"  # the same in a fork, for a call that it repeats
        self.kind = ""  # the class of a value from another process, if not one of JSON's
        live.tools[identity.id] = tool

    def wish(self) -> Wish:
        policy = self._tool.policy
        address = address_of(self._tool.function)
        return Wish(
            identity=self._identity,
            work=self._work,
            permit=self._permit,
            manner=self._manner(),
            retry=policy.tries,
            probe=self._probe if policy.probe else None,
            undoable=policy.undo is not None,
            tool=self._tool.name,
            where=f"{self._tool.function.__module__}:{address['name']}" if address else "",
            home=file_of(self._tool.function) if self._run_in in ("loop", "thread") else None,
        )

    def _manner(self) -> Manner:
        policy = self._tool.policy
        grace_s = policy.stop_grace_s
        default = "freeze" if self._run_in == "process" else "finish"
        return Manner(
            effect=policy.effect,
            run_in=self._run_in,
            timeout_s=policy.timeout_s,
            grace_s=self._live.services.timing.stop_grace_s if grace_s is None else grace_s,
            on_pause=policy.on_pause or default,
            on_redirect=policy.on_redirect,
            has_probe=policy.probe is not None,
        )

    def _call(self, args: dict[str, Any]) -> Call:
        return Call(tool=self._tool.name, args=args, idempotency_key=self._key)

    # --- before it ---

    async def _permit(self) -> Permit:
        call = self._call(self._args)
        granted = ApprovalGrant(self._args)
        if self._needs_approval(call):
            await pass_or_cut(self._live, dump(self._args), part=f"args-{self._identity.id}")
            granted = await approved(
                self._live, self._identity, self._tool, call, self._ask, self._is_overtaken
            )
        else:
            await withdraw_cards(self._live, self._identity)
        return Permit(dump(granted.args), granted.question, granted.call)

    def _needs_approval(self, call: Call) -> bool:
        policy = self._tool.policy
        if not callable(policy.approve):
            return policy.needs_approval(call)
        return self._apart(policy.approve).ask(lambda: policy.needs_approval(call))

    async def _probe(self, args: Json) -> Probed | None:
        """Return the tool's own answer about a call that was cut. None: it cannot tell."""
        try:
            match await self._ask(self._tool.policy.probe, self._call(load(args))):
                case Happened(result=result):
                    return Probed(True, dump(result))
                case bool(happened):
                    return Probed(happened, NULL)
                case _:
                    return None
        except Exception:  # then it cannot tell
            return None

    async def _ask(self, function: Any, call: Call) -> Any:
        """Call one of the tool's own functions about a call. It only reads."""
        call = msgspec.structs.replace(call, args=self._revealed(call.args))
        await self._live.may_start()
        apart = self._apart(function)
        work = about(function, call, self._context(None), apart.started)
        with self._live.busy():
            ended = await apart.call(work, within_s=_CHECK_S)
        if ended.error:
            raise ended.error
        return ended.value

    def _apart(self, function: Any) -> HostCalls:
        return HostCalls(self._live, self._identity.id, f"a look of {self._tool.name!r}", function)

    def _context(self, flight: Flight | None) -> ToolContext:
        return ToolContext(
            run_id=self._live.run.id,
            step=self._identity.id,
            attempt=flight.attempt if flight else 0,
            idempotency_key=self._key,
            deps=self._deps,
            checkpoint=self._live.stand_still,
        )

    # --- it ---

    async def _work(self, flight: Flight, permit: Permit) -> Any:
        args: dict[str, Any] = load(permit.args)
        if names_a_secret(permit.args):
            args = self._revealed(args)
        if self._perform:
            return await self._perform(args, Natively(self, flight))
        return await self.natively(flight, args)

    def _revealed(self, args: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with revealed secrets, for the tool alone."""
        return self._secrets.reveal_value(args, tool=self._tool.name)

    async def natively(self, flight: Flight, args: dict[str, Any]) -> Any:
        match self._run_in:
            case "process":
                return await self._in_process(flight, args)
            case "thread":
                stop = ThreadStop() if self._tool.policy.on_stop == "raise" else None
                flight.halt = stop.stop if stop else None
                context = self._optional(flight)
                value = await in_thread(self._tool.function, context, args, stop=stop)
                return await value if inspect.isawaitable(value) else value
            case _:
                return await invoke(self._tool.function, self._optional(flight), args)

    def _optional(self, flight: Flight) -> ToolContext | None:
        return self._context(flight) if wants_context(self._tool.function) else None

    async def _in_process(self, flight: Flight, args: dict[str, Any]) -> Any:
        output = Output(self._live.guards.of_tools(), self._secrets)
        showing = asyncio.create_task(self._show(flight, output))
        try:
            process = await self._start(flight, args, output)
            with self._live.cutting(flight, process) as reach:
                try:
                    ended = await asyncio.shield(process.ended)
                except asyncio.CancelledError:
                    flight.stop()
                    ended = await process.ended
            if reach.order in (*STOPS, "rest"):
                flight.obey(reach.order)  # this loop was blocked, and hears of it only now
            if refused := self._live.refusal():
                flight.stop(doubt=refused)  # the warden stopped it without asking this process
        finally:
            output.close()
            await showing
        return self._outcome(flight, ended, output)

    async def _start(self, flight: Flight, args: dict[str, Any], output: Output) -> Process:
        tool = self._tool
        if tool.policy.command:
            command = _command(tool, self._optional(flight), args)
            what: dict[str, Any] = {"argv": command.argv}
            given = command.input.encode(errors="replace")
        else:
            command = Command([])
            what = {"function": address_of(tool.function)}
            warn_of_lost_memory(tool.name, tool.function)
            context, by = tool.shipped_context(self._context(flight))
            makes = self._live.makes_deps if context is not None else None
            deps = address_of(makes) if makes else None
            by = address_of(by) if by else None
            given = encoded(Given(args=args, context=context, deps=deps, context_by=by))
        return await self._live.services.processes.start(
            what,
            given,
            out=output.take_out,
            err=output.take_err,
            news=self._live.news,
            began=flight.take,
            env=command.env,
            needs_env=tool.policy.needs_env,
            cwd=command.cwd,
            whose=self._live.whose,
            run=self._live.lease.run_id,
            epoch=self._live.lease.epoch,
        )

    def _outcome(self, flight: Flight, ended: ToolEnd, output: Output) -> Any:
        answer = answer_in(ended.answer)
        if answer and not answer.error:
            self.kind = answer.kind
            return load(answer.result)
        if (ended.rung or not ended.began) and flight.rung:
            raise Cut(ended)
        if not ended.began:
            raise ToolFailed(f"NotStarted: {ended.why or 'it could not be started'}")
        if ended.rung:
            raise Lost(ended.why or "it was killed, and not by its run")
        if answer and answer.happened:
            raise HappenedUnreadably(
                f"it happened, but its result cannot be stored: {answer.error}"
            )
        if answer:
            raise ToolFailed(answer.error, at=answer.at, traceback=answer.traceback)
        if ended.status is None:
            raise Lost(ended.why or "its processes were killed by something else")
        if self._tool.policy.command:
            return CommandResult(
                status=ended.status,
                stdout=output.out.text(),
                stderr=output.err.text(),
                dropped_bytes=output.out.dropped + output.err.dropped,
                left_behind=ended.left,
            )
        raise Vanished(f"ExitWithoutResult: its process ended with status {ended.status}")

    async def _show(self, flight: Flight, output: Output) -> None:
        """Show the output as it comes. Output that the run refuses was never shown."""
        live = self._live
        part = output_part(flight.step, flight.attempt)
        shown = ""
        while piece := await output.piece():
            while not await live.show(part, piece, offset=len(shown)):
                if live.run.cancel or output.is_closed or live.gate.is_closed:
                    return
                await live.moved()  # the run is paused: show it after the resume
            shown += piece
        if output.hit:
            await trip(live, output.hit, step=flight.step, part=part)
        if shown:
            is_whole = output.hit is None
            ended = TextEnded(part=part, text=shown, complete=is_whole, step=flight.step)
            await self._live.record(ended)


class Natively:
    """Calls the function of a tool where its call runs: in the loop, a process or a thread."""

    def __init__(self, call: ToolCall, flight: Flight) -> None:
        self._call, self._flight = call, flight

    @property
    def kind(self) -> str:
        """The class of a value from a process, `module:name`, if it is not one of JSON's."""
        return self._call.kind

    async def __call__(self, args: dict[str, Any]) -> Any:
        """Return what the function returns for these arguments, or raise what it raises."""
        return await self._call.natively(self._flight, args)


def place_of(tool: Tool[..., Any]) -> RunIn:
    """Return where the tool runs.

    Raises:
        InvalidInput: it insists on a process, and no other process could find its function.
    """
    wanted = tool.wanted_place
    if wanted == "process" and not tool.policy.command and address_of(tool.function) is None:
        if not tool.insists:
            return "thread"
        raise InvalidInput(
            f"Tool {tool.name!r} cannot be called: it runs in a process of its own, and that "
            "cannot find its function, because it is not at the top of a module. Nothing was "
            "begun. Move it there; or make it async; or declare run_in='thread', which cannot be "
            "stopped."
        )
    return wanted


def _command(tool: Tool[..., Any], context: ToolContext | None, args: dict[str, Any]) -> Command:
    """Return the command that a tool's function wants to run."""
    said = invoke(tool.function, context, args)
    try:
        command = said if isinstance(said, Command) else Command(said)
        msgspec.convert(command.argv, list[str])
    except msgspec.ValidationError as error:
        why = f"it is not a list of text: {error}"
    else:
        if command.argv and not any("\0" in part for part in command.argv):
            return command
        why = "it is empty, or has a NUL in it"
    raise InvalidInput(
        f"Tool {tool.name!r} does not say which command to run: {why}. Nothing was begun."
    )


class Queued(Generic[Result]):
    """A call that its agent did not wait for. It runs once a person has allowed it."""

    def __init__(self, task: "asyncio.Task[Result]") -> None:
        self._task = task

    def __repr__(self) -> str:
        return f"<queued call, {'done' if self._task.done() else 'open'}>"

    async def result(self) -> Result:
        """Wait for the outcome. Raises the same errors as awaiting the call itself."""
        return await asyncio.shield(self._task)


async def queued(live: LiveRun, tool: Tool[..., Any], wish: Wish) -> Queued:
    """Begin a call that waits for its approval, and return at once."""
    return Queued(live.aside(called(live, tool, wish)))


async def called(live: LiveRun, tool: Tool[..., Any], wish: Wish) -> Any:
    """Return the result of a call. The result of a command has its own class in every life."""
    result = await carry_out_step(live, wish)
    if tool.policy.command and result is not None:
        return msgspec.convert(result, CommandResult)
    return result
