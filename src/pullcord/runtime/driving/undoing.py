"""Undoes the effects of a cancelled run, newest first, each with its own durable intent.

If a crash cut an undo off, the next owner calls it again with the same key: an undo promises to
bear that. If the undo is itself a tool with the effect `once`, the step's probe is asked, or else a
person.

The effects of children are undone too, each in its turn, but not here. A process that knows the
child's agent takes the child up, as it would any ended run with an undo (`ChildUndoing`).
"""

import asyncio
import importlib
import inspect
from collections.abc import Mapping
from typing import Any, Final

from pullcord.core.calls import Call, Known, ToolContext
from pullcord.core.events import (
    AttentionRaised,
    DoubtSettled,
    LateResult,
    RunIn,
    StepFinished,
    StepStarted,
    StepUndone,
    UndoFailed,
    UndoStarted,
)
from pullcord.core.run import Step
from pullcord.core.undo import is_anything_left_to_undo, to_undo, undo_item
from pullcord.core.values import load
from pullcord.errors import Fenced, KillSwitchEngaged, SecretUnknown, StorageFailed
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.driving.child_undoing import ChildUndoing
from pullcord.runtime.driving.host_calls import HostCalls
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.driving.tool_functions import about, about_in_process
from pullcord.runtime.ownership import together
from pullcord.runtime.policy import Policies, Policy, Tool, policy_of
from pullcord.runtime.processes.warden_client import address_of
from pullcord.runtime.steps.failures import described

_PROBE_S: Final = 30.0


class Undoing:
    """Undoes all effects. It names one that fails for good, and goes on with the others."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._is_hurried = self._is_leaving = False
        self._is_cut = False  # the next owner goes on with what is under way
        self._attempt: HostCalls | None = None  # if it could not be ended: no other beside it
        self._woken = asyncio.Event()
        self._below = ChildUndoing(live)
        self.is_over = False
        self.broke: Exception | None = None  # an error of ours, not of an undo
        live.later(self._go_through())

    def hurry(self) -> None:
        """Skip the waits between attempts: the second press. An undo under way goes on."""
        self._is_hurried = True
        self._below.hurry()
        self._woken.set()

    def leave(self, *, now: bool) -> None:
        """Stop: the runtime closes, and the next owner goes on. `now`: cut the undo under way."""
        self._is_leaving = True
        self._below.leave()
        self._woken.set()
        if now:
            self._is_cut = True
            if self._attempt:
                self._attempt.cut()

    async def _go_through(self) -> None:
        try:
            while not self._is_leaving and is_anything_left_to_undo(self._live.run):
                if not self._live.run.children:
                    await self._undo(to_undo(self._live.run)[0])
                else:
                    await self._undo_family()
        except (KillSwitchEngaged, Fenced):
            pass  # the release of the switch, or the new owner, goes on with it
        except StorageFailed:
            await asyncio.sleep(self._live.services.timing.retry_storage_s)
        except asyncio.CancelledError:
            if not self._is_leaving:
                raise
        except Exception as error:
            self.broke = error
        finally:
            self.is_over = True
            self._live.news()

    async def _undo_family(self) -> None:
        """Go once through the effects of the run and its children.

        Effects that appear meanwhile are newer, and come first the next time.
        """
        mine = self._live.run.id
        for run_id, effects in await self._below.order():
            if self._is_leaving:
                return
            if run_id != mine:
                await self._below.have_undone(run_id, [effect.step for effect in effects])
                continue
            for effect in effects:
                if self._is_leaving or to_undo(self._live.run)[:1] != [effect.step]:
                    return
                await self._undo(effect.step)
        if not self._is_leaving:
            await self._below.settle()

    async def _undo(self, step: str) -> None:
        known = self._live.run.steps[step]
        policy = policy_for(step, known, self._live.tools, self._live.services.policies)
        if policy is None or policy.undo is None:
            return await self._give_up(step, "LookupError: nobody here knows how it is undone")
        try:
            call = await self._call(step, known)
        except SecretUnknown as unknown:
            return await self._give_up(step, described(unknown))
        if known.undo == "started" and _effect(policy.undo) == "once":
            return await self._find_out(step, policy, call)
        if known.rung == "abandoned" and not known.late_seq and known.undo == "":
            why = "it could not be stopped, and may have its effect only after it was undone"
            return await self._give_up(step, why)
        error = ""
        attempts = policy.undo_tries.attempts if _effect(policy.undo) != "once" else 1
        while not self._is_leaving:
            attempt = self._live.run.steps[step].undo_attempt + 1
            intent = UndoStarted(
                step=step, attempt=attempt, error=error, run_in=_place_of(policy.undo)
            )
            if not await self._live.record(intent):
                return None  # a newer effect is to be undone first
            error = await self._try(step, policy, call, attempt)
            if not error:
                await self._live.record(StepUndone(step=step))
                return None
            if attempt >= attempts or (self._attempt and self._attempt.left):
                return await self._give_up(step, error)
            await self._rest(policy.undo_tries.wait(attempt))
        return None

    async def _try(self, step: str, policy: Policy, call: Call, number: int) -> str:
        """Call the undo, and return its error as text, or an empty text."""
        undo = policy.undo
        await self._live.licensed()
        if refused := self._live.refusal():
            raise KillSwitchEngaged(refused)
        context = self._context(call, number)
        raw = getattr(undo, "__pullcord_tool__", undo)
        apart = self._attempt = HostCalls(self._live, step, f"the undo of {call.tool!r}", raw)
        if _place_of(undo) == "process":
            live, needs = self._live, policy.needs_env
            processes, whose = live.services.processes, live.whose
            work = about_in_process(processes, raw, call, context, whose, live.lease, needs)
        else:
            work = about(raw, call, context, apart.started)
        _, failed = await apart.call(work, within_s=policy.undo_timeout_s)
        if failed is None:
            return ""
        if isinstance(failed, asyncio.CancelledError):
            if self._is_leaving and not apart.left:
                raise failed
            why = "it was cut" if self._is_cut else "it was cancelled by something else"
            return f"CancelledError: {why}{apart.said}"
        return f"{described(failed)}{apart.said}"

    async def _find_out(self, step: str, policy: Policy, call: Call) -> None:
        """Ask the step's probe after a crash in an undo that may not run twice."""
        found: Any = None
        await self._live.licensed()
        if refused := self._live.refusal():
            raise KillSwitchEngaged(refused)
        if policy.probe is not None:
            look = HostCalls(self._live, step, f"a look of {call.tool!r}", policy.probe)
            work = about(policy.probe, call, self._context(call, 0), look.started)
            found, _ = await look.call(work, within_s=_PROBE_S)
        if found is False:
            await self._live.record(StepUndone(step=step))
        else:
            await self._give_up(step, "nobody knows whether it was undone: it was cut off")

    async def _give_up(self, step: str, error: str) -> None:
        run = self._live.run
        text = (
            f"Step {run.steps[step].name!r} could not be undone: {error}. "
            f"Try again: pullcord undo {run.id} {step}"
        )
        item = AttentionRaised(item=undo_item(step), kind="undo_failed", text=text)
        await self._live.record(together(item, UndoFailed(step=step, error=error)))

    async def _call(self, step: str, known: Step) -> Call:
        """Return the call as recorded, with its result if there is one."""
        args: dict[str, Any] = {}
        result: Any = None
        status: Known = known.status if known.status != "started" else "in_doubt"
        for record in await self._live.services.journal.read(self._live.run.id):
            match record.event:
                case StepStarted(step=name) as started if name == step:
                    args = load(started.args)
                case StepFinished(step=name) as finished if name == step:
                    result = load(finished.result)
                case DoubtSettled(step=name, choice="happened") as settled if name == step:
                    result = load(settled.result)
                case LateResult(step=name, error="") as late if name == step:
                    result, status = load(late.result), "late"
                case _:
                    pass
        key = f"{self._live.run.id}-{step}"
        tool = known.tool or known.name
        reveal = self._live.services.secrets.reveal_value
        args, result = reveal(args, tool=tool), reveal(result, tool=tool)
        return Call(tool=tool, args=args, idempotency_key=key, result=result, known=status)

    def _context(self, call: Call, attempt: int) -> ToolContext:
        return ToolContext(
            run_id=self._live.run.id,
            step=call.idempotency_key.removeprefix(f"{self._live.run.id}-"),
            attempt=attempt,
            idempotency_key=f"undo-{call.idempotency_key}",
        )

    async def _rest(self, seconds: float) -> None:
        self._woken.clear()
        if self._is_hurried or self._is_leaving:
            return
        alarm = Alarm(self._live.services.alarms, self._woken.set)
        alarm.set(seconds)
        await self._woken.wait()
        alarm.off()


def policy_for(
    step: str, known: Step, met: Mapping[str, Tool[..., Any]], policies: Policies
) -> Policy | None:
    """Return the policy of the step's tool, or None if it is not known here.

    It comes from the tool that the agent has called, from the tool's recorded place, or from the
    policies by name.
    """
    if step in met:
        return met[step].policy
    found = _found(known.where)
    if isinstance(found, Tool):
        return found.policy
    return policy_of(policies[known.tool]) if known.tool in policies else None


def _found(where: str) -> Any:
    module, _, name = where.partition(":")
    if not module or module == "__main__":
        return None
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception:
        return None
    return found


def _place_of(undo: Any) -> RunIn:
    """Return where the undo runs: in a process of its own, if that can find it."""
    raw = getattr(undo, "__pullcord_tool__", undo)
    if inspect.iscoroutinefunction(raw):
        return "loop"
    return "process" if address_of(raw) else "thread"


def _effect(undo: Any) -> str:
    return undo.policy.effect if isinstance(undo, Tool) else "idempotent"
