"""What a tool declares: what it does to the world, how it is stopped, undone and allowed."""

import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import (
    Any,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    get_args,
    overload,
)

import msgspec

from pullcord.core.calls import Call, ToolContext
from pullcord.core.conditions import MOST, is_amount, is_whole
from pullcord.core.events import Effect, RunIn
from pullcord.core.values import dump
from pullcord.errors import InvalidInput

P = ParamSpec("P")
R = TypeVar("R")
Approve: TypeAlias = Callable[[Call], bool] | Literal["always", "never"]
_DAY_S = 24 * 3600.0


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often something is tried, and how long the waits between are: doubled each time."""

    attempts: int = 3
    wait_s: float = 0.5
    wait_max_s: float = 30.0

    def wait(self, attempt: int) -> float:
        return min(self.wait_s * 2 ** min(attempt - 1, 60), self.wait_max_s)


_THRICE = Retry()


def always(_call: Call) -> bool:
    """For `approve=`: every call needs somebody's word."""
    return True


@dataclass(frozen=True, kw_only=True)
class Policy:
    """How a tool is to be treated. For tools of others it is given by name, in a mapping.

    effect: `once` (default), `idempotent` (may be begun again with the same key), `none` (reads).
    undo: takes the effect back when the run is cancelled; handed a `Call`. It is called again
        with the same key until it returns, so it must not mind; unless it is itself a tool with
        the effect `once`: then a crash in the middle of it is for a person.
    probe: says after a crash whether a `Call` happened: True, False, `call.happened(result)`, or
        None if it cannot tell.
    approve: `always`, `never`, or a function of the `Call`. still_valid: asked with the `Call`
        right before an approved one begins; if not, it does not.
    deferred: the agent does not wait for the approval; it gets a `Queued` and goes on.
    run_in: `loop` (async), `process` (sync), or `thread`, which cannot be stopped.
    on_pause: `finish`, `cancel` (not with `once`), or `freeze` (a process). on_redirect: `finish`
        or `cancel`.
    needs_env: variables of the environment that hold a secret, and that a process or command is
        given all the same.
    on_stop: `raise`, of a tool in a thread: the sockets that the call has opened are shut, and
        `Interrupted` is raised in it. Without, such a tool cannot be stopped.
    """

    effect: Effect = "once"
    undo: Callable[..., Any] | None = None
    undo_retry: int | Retry = _THRICE
    undo_timeout_s: float = 60.0
    probe: Callable[..., Any] | None = None
    approve: Approve = "never"
    approve_within_s: float = 7 * _DAY_S
    still_valid: Callable[..., Any] | None = None
    deferred: bool = False
    run_in: RunIn = ""
    retry: int | Retry = 1
    timeout_s: float | None = None
    stop_grace_s: float | None = None
    on_pause: Literal["", "finish", "cancel", "freeze"] = ""
    on_redirect: Literal["finish", "cancel"] = "finish"
    on_stop: Literal["", "raise"] = ""
    command: bool = False  # the function returns the command to run, as a list
    version: str = ""  # of this policy: an approval given under another one does not count
    needs_env: Sequence[str] = ()

    @property
    def tries(self) -> Retry:
        return _tries(self.retry)

    @property
    def undo_tries(self) -> Retry:
        return _tries(self.undo_retry)

    def needs_approval(self, call: Call) -> bool:
        if callable(self.approve):
            try:
                return bool(self.approve(call))
            except Exception:
                return True  # whoever cannot say that it needs none is taken to need one
        return self.approve == "always"

    @property
    def digest(self) -> str:
        """What of it an approval is bound to."""
        said = {
            field.name: _plain(getattr(self, field.name))
            for field in fields(self)
            if field.name not in ("undo_retry", "retry", "approve_within_s", "on_stop")
            and (field.name != "needs_env" or self.needs_env)  # of before there was such a field
        }
        return sha256(dump(said)).hexdigest()[:16]


class _Declared(TypedDict, total=False):
    effect: Effect
    undo: Callable[..., Any] | None
    undo_retry: int | Retry
    undo_timeout_s: float
    probe: Callable[..., Any] | None
    approve: Approve
    approve_within_s: float
    still_valid: Callable[..., Any] | None
    run_in: RunIn
    retry: int | Retry
    timeout_s: float | None
    stop_grace_s: float | None
    on_pause: Literal["", "finish", "cancel", "freeze"]
    on_redirect: Literal["finish", "cancel"]
    on_stop: Literal["", "raise"]
    version: str
    needs_env: Sequence[str]


class Declared(_Declared, total=False):
    """What a tool can declare, as keywords: the fields of `Policy`, which says what each means."""

    command: bool
    deferred: bool


class Tool(Generic[P, R]):
    """A function and what it declares. Calling it calls the function, and records nothing:
    in an agent it is called as `await ctx.tool(tool, …)`."""

    def __init__(
        self, function: Callable[P, R], policy: Policy, *, name: str = "", insists: bool = True
    ) -> None:
        self.function = self.__pullcord_tool__ = function
        self.name = name or getattr(function, "__name__", type(function).__name__)
        self.policy = policy
        self.insists = insists  # on being carried out as it declares, or not at all
        functools.update_wrapper(self, function, updated=())
        self._show_without_context()
        check_policy(self.name, policy)
        self._check_place()

    def _show_without_context(self) -> None:
        """Whoever reads how it is called, to tell a model, does not see the context."""
        try:
            self.__signature__ = signature_of(self.function)
        except (TypeError, ValueError):
            return  # it does not say what it takes
        if wants_context(self.function):
            hints = getattr(self.function, "__annotations__", {})
            self.__annotations__ = {name: hint for name, hint in hints.items() if name != "ctx"}

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.name}>"

    @property
    def is_async(self) -> bool:
        """Also of an object that is called like a coroutine."""
        kind: Any = type(self.function)
        called = kind.__call__ if callable(self.function) else None
        return inspect.iscoroutinefunction(self.function) or inspect.iscoroutinefunction(called)

    def shipped_context(self, context: ToolContext) -> tuple[dict[str, Any] | None, Any]:
        """What of its context travels to another process, and what makes one of that there if it
        is not a `ToolContext`."""
        return (context.as_data() if wants_context(self.function) else None), None

    @property
    def wanted_place(self) -> RunIn:
        if self.policy.command:
            return "process"
        return self.policy.run_in or ("loop" if self.is_async else "process")

    def _check_place(self) -> None:
        name, place = self.name, self.wanted_place
        if not callable(self.function):
            raise _no(repr(self.function), "it cannot be called", "a function")
        if inspect.isgeneratorfunction(self.function) or inspect.isasyncgenfunction(self.function):
            raise _no(name, "it is a generator, of which a call runs nothing", "one that returns")
        if place == "loop" and not self.is_async:
            raise _no(name, "it is not async and would block the loop", "run_in='process'")
        if place == "thread" and self.is_async:
            raise _no(name, "it is async and needs no thread", "run_in='loop'")
        if self.policy.on_stop and (self.is_async or self.policy.run_in == "process"):
            raise _no(name, "nothing is raised in what is cancelled or killed", "a sync tool")
        if self.policy.on_pause == "freeze" and place != "process":
            raise _no(name, f"what runs in a {place} cannot freeze", "run_in='process'")

    def arguments(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments by name, with the defaults: the same call is the same mapping.

        Raises:
            InvalidInput: they do not fit.
        """
        try:
            bound = signature_of(self.function).bind(*args, **kwargs)
        except ValueError:
            why = (
                f"Cannot call tool {self.name!r}: it does not say what it takes. Nothing was begun."
            )
            raise InvalidInput(why) from None
        except TypeError as error:
            raise InvalidInput(
                f"Cannot call tool {self.name!r}: {error}. Nothing was begun."
            ) from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def accept(self, args: dict[str, Any]) -> dict[str, Any]:
        """Arguments that somebody else has written: checked to be ones it can be called with."""
        parameters = signature_of(self.function).parameters
        missing = [n for n, p in parameters.items() if n not in args and p.default is p.empty]
        unknown = [name for name in args if name not in parameters]
        if missing or unknown:
            said = [f"{name} is missing" for name in missing] + [f"it has no {n}" for n in unknown]
            raise InvalidInput(f"Tool {self.name!r} cannot be called like that: {', '.join(said)}.")
        return args


class CommandTool(Tool[P, Any]):
    """One that is declared `command=True`: an agent that calls it gets a `CommandResult`."""


class DeferredTool(Tool[P, Any], Generic[P, R]):
    """One that is declared `deferred=True`: an agent that calls it gets a `Queued`."""


Policies: TypeAlias = Mapping[str, Policy | Tool[..., Any] | Mapping[str, Any]]


class _Declares(Protocol):
    """A decorator that makes a tool."""

    def __call__(self, function: Callable[P, R], /) -> Tool[P, R]: ...


class _DeclaresCommand(Protocol):
    def __call__(self, function: Callable[P, Any], /) -> CommandTool[P]: ...


class _DeclaresDeferred(Protocol):
    @overload
    def __call__(self, function: Callable[P, Awaitable[R]], /) -> DeferredTool[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> DeferredTool[P, R]: ...


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(*, command: Literal[True], **declared: Unpack[_Declared]) -> _DeclaresCommand: ...
@overload
def tool(*, deferred: Literal[True], **declared: Unpack[_Declared]) -> _DeclaresDeferred: ...
@overload
def tool(**declared: Unpack[_Declared]) -> _Declares: ...
@overload
def tool(**declared: Unpack[Declared]) -> Callable[[Callable[P, Any]], Tool[P, Any]]: ...
def tool(function: Callable[..., Any] | None = None, /, **declared: Unpack[Declared]) -> Any:
    """Declare what a function does to the world and how it is stopped; see `Policy`.

    Its first parameter may be called `ctx`: it is then handed a `ToolContext`.
    """
    policy = policy_of(declared)
    kind: Any = DeferredTool if policy.deferred else CommandTool if policy.command else Tool

    def declare(decorated: Callable[..., Any]) -> Tool[..., Any]:
        return kind(decorated, policy)

    return declare if function is None else declare(function)


def policy_of(given: "Policy | Tool[..., Any] | Mapping[str, Any]") -> Policy:
    """A policy, from what stands in a configuration.

    Raises:
        InvalidInput: it says something that no policy says.
    """
    if isinstance(given, Tool):
        return given.policy
    if isinstance(given, Policy):
        return given
    known = {field.name for field in fields(Policy)}
    if unknown := sorted(set(given) - known):
        raise InvalidInput(
            f"A tool cannot declare {', '.join(unknown)}. Nothing was changed. "
            f"It can declare: {', '.join(sorted(known))}."
        )
    return Policy(**given)


def as_tool(function: Any, policies: Policies) -> Tool[..., Any]:
    """The tool that is meant: declared by itself, by its name in `policies`, or not at all."""
    if isinstance(function, Tool):
        return cast("Tool[..., Any]", function)
    if not callable(function):
        raise InvalidInput(f"{function!r} is not a tool: it cannot be called. Nothing was begun.")
    name = getattr(function, "__name__", type(function).__name__)
    policy = policy_of(policies.get(name, Policy()))
    return Tool(function, policy, name=name, insists=False)


def signature_of(function: Any) -> inspect.Signature:
    """Its parameters, without the context."""
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    return signature.replace(parameters=parameters[1:] if _is_ctx(parameters) else parameters)


def file_of(function: Any) -> str:
    """Where its code stands, if it is written in Python."""
    function = inspect.unwrap(function)
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return getattr(code, "co_filename", "")


def wants_context(function: Any) -> bool:
    return _is_ctx(list(inspect.signature(function).parameters.values()))


def _is_ctx(parameters: list[inspect.Parameter]) -> bool:
    return bool(parameters) and parameters[0].name == "ctx"


def check_policy(name: str, policy: Policy) -> None:
    """Refuse what could not be carried out, where it is declared.

    Raises:
        InvalidInput: says what is wrong, and what would do.
    """
    for field in ("retry", "undo_retry"):
        given: object = getattr(policy, field)
        attempts = given.attempts if isinstance(given, Retry) else given
        waits = (given.wait_s, given.wait_max_s) if isinstance(given, Retry) else ()
        if not is_whole(attempts) or not all(map(is_amount, waits)):
            raise _no(name, f"its {field} cannot be {given!r}", "a number of attempts, or a Retry")
    for field in ("timeout_s", "stop_grace_s", "undo_timeout_s", "approve_within_s"):
        given = getattr(policy, field)
        is_number = isinstance(given, int | float) and not isinstance(given, bool) and given >= 0
        if not is_number and not (given is None and field in ("timeout_s", "stop_grace_s")):
            raise _no(name, f"its {field} cannot be {given!r}", "a number of seconds")
    if policy.approve_within_s > MOST:  # it becomes a moment, which has to fit a record
        raise _no(name, f"its approve_within_s cannot be {policy.approve_within_s!r}", "less")
    for role in ("undo", "probe", "still_valid"):
        if (function := getattr(policy, role)) is not None:
            _check_takes_a_call(name, role, function)
    if not callable(policy.approve) and policy.approve not in ("always", "never"):
        raise _no(name, f"approve cannot be {policy.approve!r}", "'always', 'never' or a function")
    if isinstance(policy.undo, Tool) and policy.undo.policy.command:
        raise _no(name, "its undo only names a command", "a function that runs it")
    _check_words(name, policy)


def _check_words(name: str, policy: Policy) -> None:
    if policy.effect not in get_args(Effect):
        raise _no(name, f"its effect cannot be {policy.effect!r}", "once, idempotent or none")
    if policy.run_in not in get_args(RunIn) or policy.run_in == "remote":
        raise _no(name, f"it cannot run in {policy.run_in!r}", "loop, process or thread")
    if policy.tries.attempts > 1 and policy.effect == "once":
        raise _no(name, "with the effect 'once' it cannot be retried", "effect='idempotent'")
    if policy.on_pause == "cancel" and policy.effect == "once":
        raise _no(name, "with the effect 'once' a pause cannot cut it", "on_pause='finish'")
    if policy.on_pause not in ("", "finish", "cancel", "freeze"):
        raise _no(name, f"on_pause cannot be {policy.on_pause!r}", "finish, cancel or freeze")
    if policy.on_stop not in ("", "raise"):
        raise _no(name, f"on_stop cannot be {policy.on_stop!r}", "raise, or nothing")
    if policy.on_redirect not in ("finish", "cancel"):
        raise _no(name, f"on_redirect cannot be {policy.on_redirect!r}", "finish or cancel")
    if isinstance(policy.needs_env, str):
        raise _no(name, "needs_env takes several names", f"needs_env=[{policy.needs_env!r}]")


def _tries(given: int | Retry) -> Retry:
    return Retry(attempts=given) if isinstance(given, int) else given


def _check_takes_a_call(name: str, role: str, function: Any) -> None:
    try:
        if not callable(function):
            raise TypeError
        signature_of(_raw(function)).bind(object())
    except TypeError:
        instead = f"def {getattr(function, '__name__', role)}(call: Call), or (ctx, call)"
        raise _no(name, f"its {role} has to take one call", instead) from None
    except ValueError:
        pass  # it does not say what it takes


def _no(name: str, why: str, instead: str) -> InvalidInput:
    return InvalidInput(
        f"Tool {name!r} cannot be declared like that: {why}. Nothing was changed. Use {instead}."
    )


def _raw(function: Any) -> Any:
    return getattr(function, "__pullcord_tool__", function)


def _plain(value: Any) -> Any:
    """A function by its name; what has none, by that of its kind: the same in every process."""
    if isinstance(value, functools.partial):
        return _plain(value.func)  # pyright: ignore[reportUnknownMemberType]
    if callable(value):
        raw = _raw(value)
        named: Any = raw if hasattr(raw, "__qualname__") else cast("Any", type(raw))
        return f"{named.__module__}:{named.__qualname__}"
    return value


@tool(command=True)
def shell(command: str) -> list[str]:
    """Run a line in the shell. What it puts out is shown as it comes; cancel kills all of it."""
    return ["/bin/sh", "-c", command]
