"""doctor: is the store sound, is this machine fit, has every run somebody to drive it?"""

import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import apsw

from pullcord.cli.as_json import print_said
from pullcord.cli.commands.show import nobody
from pullcord.cli.local_runs import LocalRuns, local_runs
from pullcord.cli.render.json_shapes import Finding
from pullcord.cli.render.run_text import line, plain
from pullcord.cli.settings import Settings, settings, settle
from pullcord.client.server_runs import reach as remote
from pullcord.core.run import Run
from pullcord.core.states import LIVING, NEEDS_OWNER, RunState
from pullcord.errors import PullcordError
from pullcord.journal.sqlite.schema import MIGRATIONS
from pullcord.journal.store_location import is_url, shown_location
from pullcord.journal.stored_runs.snapshots import load
from pullcord.killswitch.flags import Flags
from pullcord.process import is_gone
from pullcord.warden.fences import Fences

_ENOUGH_BYTES = 100 * 1024 * 1024
_FENCES: Final = {
    "cgroup+namespace": "a process tool is held in a cgroup and a PID namespace: frozen and killed "
    "as one, and gone with whoever holds it",
    "cgroup": "a process tool is held in a cgroup: frozen and killed as one",
    "namespace": "a process tool is held in a PID namespace: killed as one",
    "sweep": "a process tool is stopped, listed and killed until nothing is left of it",
}


def _finding(is_fine: bool, what: str, found: str) -> Finding:
    return Finding(is_fine=is_fine, what=what, found=found)


def carry_out(asked: Any) -> int:
    findings = list(_examine(asked))
    print_said(asked, findings, map(_told, findings))
    return 0 if all(finding.is_fine for finding in findings) else 1


def _told(finding: Finding) -> str:
    return f"{'✓' if finding.is_fine else '!'} {finding.what:<14}{plain(finding.found)}"


def _examine(asked: Any) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield _finding(sys.version_info >= (3, 11), "python", version)
    yield _finding(True, "sqlite", f"{apsw.sqlite_lib_version()} (apsw's own)")
    fences = Fences()
    fences.close()
    others = "; ".join(f"{kind}: {reason}" for kind, reason in fences.why_not.items())
    yield _finding(True, "tools", _FENCES[fences.kind] + (f" ({others})" if others else ""))
    try:
        found = settings(asked)
        yield from _examine_settings(found)
        settle(asked)
    except PullcordError as error:
        yield _finding(False, "settings", str(error))
        return
    try:
        if asked.server:
            yield _examine_server(asked)
        else:
            with local_runs(asked) as here:
                yield from examine_store(here, asked.store)
    except PullcordError as error:
        yield _finding(False, "server" if asked.server else "store", str(error))


def _examine_settings(found: Settings) -> Iterator[Finding]:
    """Which value counts, and who has said so."""
    for key, value in sorted(found.items()):
        said = line(shown_location(str(value.value)), 200)
        yield _finding(True, "setting", f"{key} = {said} ({value.origin})")


def _examine_server(asked: Any) -> Finding:
    with remote(asked) as access:
        me = access.me()
    only = f", only for run {me.run}" if me.run else ""
    return _finding(True, "server", f"{access.where}: you are {line(me.by)}, may {me.right}{only}")


def _neither_undone_nor_approved(run: Run) -> set[str]:
    asked = {question.tool for question in run.questions.values()}
    return {
        step.tool
        for step in run.steps.values()
        if step.tool and step.effect == "once" and not step.undoable and step.tool not in asked
    }


_PLACES: Final = {
    "process": "runs in a process of its own: what it changes in memory stays there",
    "thread": "runs in a thread: it cannot be stopped, unless it declares on_stop='raise'",
}


def _places(run: Run) -> dict[str, str]:
    """What one has to know of its tools, by where they run. A command changes no memory."""
    return {
        step.tool: _PLACES[step.run_in]
        for step in run.steps.values()
        if step.run_in in _PLACES and (step.where or step.run_in == "thread")
    }


def _examine_file(path: str) -> Iterator[Finding]:
    size = os.stat(path).st_size
    yield _finding(True, "store", f"{path}, {size / 1e6:.1f} MB, schema {len(MIGRATIONS)}")
    disk = os.statvfs(os.path.dirname(os.path.abspath(path)))
    free = disk.f_bavail * disk.f_frsize
    yield _finding(free > _ENOUGH_BYTES, "disk", f"{free / 1e9:.1f} GB free")


def examine_store(here: LocalRuns, path: str) -> Iterator[Finding]:
    if is_url(path):
        yield _finding(True, "store", here.where)
        yield _finding(True, "kill switch", f"of this machine: {here.store.beside}.kill-switch")
    else:
        yield from _examine_file(path)
    for flag in Flags(here.store.beside).raised():
        yield _finding(False, "kill switch", f"{flag.said()}; pullcord kill-switch release")
    heads = here.read(
        lambda view: view.heads(states=LIVING, thread=None, before=None, limit=10_000)
    )
    counts = Counter(head.state for head in heads)
    said = ", ".join(f"{counts[state]} {state}" for state in RunState if counts[state])
    yield _finding(True, "living runs", said or "none")
    for owner in sorted({head.holder.owner for head in heads if is_gone(head.holder.owner)}):
        held = sum(head.holder.owner == owner for head in heads)
        yield _finding(True, "died", f"{owner} held {held} run(s); the next process takes over")
    for head in heads:
        try:
            run = here.read(lambda view, head=head: load(view, head))
            records = here.records(run.id, limit=1)
            attention = here.waiting(run.id).attention
        except PullcordError as error:
            yield _finding(False, "damaged", str(error))
            continue
        if head.state in NEEDS_OWNER and not here.is_driven(head):
            yield _finding(False, "not driven", f"{run.id}: {nobody(run, records)}")
        for tool in sorted(_neither_undone_nor_approved(run)):
            said = f"{line(tool, 60)} acts once, cannot be undone, and asks nobody"
            yield _finding(True, "tool", f"{run.id}: {said}")
        for tool, said in sorted(_places(run).items()):
            yield _finding(True, "tool", f"{run.id}: {line(tool, 60)} {said}")
        for one in attention:
            yield _finding(False, "look at", f"{run.id} {one.item}: {line(one.text)}")
