"""kill-switch: stop everything from outside, say what is left, and let go of it again.

Pulling it needs no database, and nothing here is loaded that does before it is pulled.
"""

import os
import sys
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from pullcord.cli.arguments import whoami
from pullcord.cli.as_json import to_json
from pullcord.cli.parser import store_path
from pullcord.core.text.visible import visible
from pullcord.core.values import check_id
from pullcord.errors import InvalidInput, KillSwitchFailed
from pullcord.journal.store_location import beside, is_url, shown_location
from pullcord.killswitch.engaging import pull
from pullcord.killswitch.flags import Flags, Scope, new_note
from pullcord.killswitch.pulled import Pulled
from pullcord.killswitch.report import Report, report
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.cli.commands import kill_switch_records as records
    from pullcord.client import server_runs
else:
    server_runs = lazy_import("pullcord.client.server_runs")
    records = lazy_import("pullcord.cli.commands.kill_switch_records")

_SHOWN_MAX: Final = 20
_RECORDED_S: Final = 20.0


def carry_out(asked: Any) -> int:
    if asked.server:
        with server_runs.reach(asked) as there:
            said: Report = there.switch(asked.act, *_scope(asked), asked.reason)
    else:
        said = {"engage": _engage, "release": _release, "status": _status}[asked.act](asked)
    if asked.json:
        sys.stdout.write(to_json(said))
    else:
        print(visible("\n".join(_lines(asked.act, said))))
    is_in_vain = asked.act == "engage" and not said["engaged"]
    return 1 if said["not_stopped"] or not said["recorded"] or is_in_vain else 0


def _scope(asked: Any) -> Scope:
    if asked.agent is not None and asked.thread is not None:
        raise InvalidInput("Name an agent or a thread, not both. Nothing was changed.")
    named = [("agent", asked.agent), ("thread", asked.thread)]
    scope = next((Scope(kind, name) for kind, name in named if name is not None), Scope())
    if scope.kind and not scope.name:
        raise InvalidInput(f"Which {scope.kind}? Nothing was changed.")
    return scope if scope.kind != "thread" else Scope("thread", check_id(scope.name, kind="thread"))


def _where(asked: Any) -> tuple[str, str]:
    """The store that is meant, and the path with which the names of its switch begin."""
    store = store_path(asked.store)
    store = store if is_url(store) else os.path.realpath(store)
    path = beside(store)
    if not os.path.exists(path) and not os.path.exists(f"{path}-side"):
        near = os.path.dirname(os.path.dirname(path))
        known = _known_in(near) if is_url(store) else ""
        raise InvalidInput(
            f"There is no store at {shown_location(store)}{known}. Nothing was stopped. "
            "Name the one that "
            "is meant with --store or PULLCORD_STORE."
        )
    return store, path


def _known_in(near: str) -> str:
    """Which databases' runs were ever driven on this machine: the same one has several names."""
    with suppress(OSError):
        if names := sorted(os.listdir(near)):
            return f", as far as this machine knows; it knows (in {near}): {', '.join(names)}"
    return ", as far as this machine knows; no process of it has opened one"


def _engage(asked: Any) -> Report:
    (store, path), scope = _where(asked), _scope(asked)
    flags = Flags(path)
    note = new_note(by=whoami(asked.by), reason=asked.reason, via="terminal")
    try:
        pulled = pull(flags, f"{path}-side", scope, note)
    except OSError as error:
        now = "NOTHING IS STOPPED. Make that file in any way you can, or kill the processes."
        raise KillSwitchFailed(
            "engaged", path=flags.path(scope), why=error.strerror, now=now
        ) from None
    held, pulled, why_not = _recorded(store, flags, scope, pulled)
    return report(flags, held, [pulled], why_not_recorded=why_not)


def _recorded(store: str, flags: Flags, scope: Scope, pulled: Pulled) -> tuple[Any, Pulled, str]:
    """Have it recorded, and wait for that no longer than a person would: a server may take a
    connection and then say nothing, and what has been stopped is to be told."""
    why_not = f"the store has said nothing for {_RECORDED_S:g} s."
    said: list[tuple[Any, Pulled, str]] = [([], pulled, why_not)]

    def hold() -> None:
        try:
            said.append(records.hold(store, flags, scope, pulled))
        except Exception as error:
            said.append(([], pulled, f"{type(error).__name__}: {error}."))

    recording = Thread(target=hold, daemon=True)
    recording.start()
    recording.join(_RECORDED_S)
    return said[-1]


def _release(asked: Any) -> Report:
    (store, path), scope = _where(asked), _scope(asked)
    left = records.release(store, scope, by=whoami(asked.by), reason=asked.reason, via="terminal")
    return report(Flags(path), left, [])


def _status(asked: Any) -> Report:
    store, path = _where(asked)
    flags = Flags(path)
    held, pulled, why_not = records.held(store, flags)
    return report(flags, held, pulled, why_not_recorded=why_not)


def _lines(act: str, said: Report) -> list[str]:
    lines: list[str] = []
    for one in said["engaged"]:
        what = "everything" if one["scope"] == "all" else f"{one['scope']} {one['name']}"
        why = f": {one['reason']}" if one["reason"] else ""
        lines.append(f"Engaged for {what}, by {one['by']}{why}. Nothing starts until its release.")
    if not lines and act == "engage":
        lines.append("Somebody has released it again meanwhile: NOTHING IS HELD.")
    elif not lines:
        lines.append("Released." if act == "release" else "Not engaged.")
    elif act == "release":
        lines.append("That is still engaged.")
    if act == "engage":
        told = f"{said['asked']} process{'' if said['asked'] == 1 else 'es'}"
        lines.append(f"{told} heard of it within {said['took_ms']} ms.")
    why = "it did not answer, could not stop what it was doing, or had lost its warden"
    lines += [f"Killed process {pid}: {why}." for pid in said["killed"]]
    when = "" if act == "engage" else " when it was pulled"
    lines += [f"NOT STOPPED{when}: {one['what']}: {one['why']}." for one in said["not_stopped"]]
    if (why := said["why_not_recorded"]) and act == "status":
        lines.append(f"What it holds cannot be told: {why}")
    elif why:
        lines.append(f"Not recorded: {why} The next process that can records it.")
    if act == "engage" and said["recorded"] and not said["held"]:
        lines.append("No living run is in its reach.")
    return lines + _of_runs(act, said["held"])


def _of_runs(act: str, held: list[str]) -> list[str]:
    if not held:
        return []
    more = f" and {len(held) - _SHOWN_MAX} more" if len(held) > _SHOWN_MAX else ""
    names = ", ".join(held[:_SHOWN_MAX]) + more
    many = f"{len(held)} run{'' if len(held) == 1 else 's'}"
    if act == "release":
        stay = "stays" if len(held) == 1 else "stay"
        return [f"Nothing was resumed. {many} {stay} paused: {names}", "Go on: pullcord resume RUN"]
    return [f"Held: {many}: {names}"]
