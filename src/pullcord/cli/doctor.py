"""doctor: is the store sound, is this machine fit, has every run somebody to drive it?"""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import apsw

from pullcord.cli.look import nobody
from pullcord.cli.parser import store_path
from pullcord.cli.store import Desk, desk
from pullcord.cli.words import line
from pullcord.core.run import Run
from pullcord.core.states import LIVING, NEEDS_OWNER, RunState
from pullcord.errors import PullcordError
from pullcord.journal.process import is_gone
from pullcord.journal.reading import records_of
from pullcord.journal.schema import MIGRATIONS
from pullcord.journal.snapshots import load
from pullcord.warden.fences import Fences

_ENOUGH_BYTES = 100 * 1024 * 1024
_FENCES: Final = {
    "cgroup": "a process tool is held in a cgroup: frozen and killed as one",
    "namespace": "a process tool is held in a PID namespace: killed as one",
    "sweep": "a process tool is stopped, listed and killed until nothing is left of it",
}


class Finding(NamedTuple):
    is_fine: bool
    what: str
    found: str


def carry_out(asked: Any) -> int:
    findings = list(_examine(asked))
    if asked.json:
        print(json.dumps([finding._asdict() for finding in findings]))
    else:
        for finding in findings:
            print(f"{'✓' if finding.is_fine else '!'} {finding.what:<14}{finding.found}")
    return 0 if all(finding.is_fine for finding in findings) else 1


def _examine(asked: Any) -> Iterator[Finding]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Finding(sys.version_info >= (3, 11), "python", version)
    yield Finding(True, "sqlite", f"{apsw.sqlite_lib_version()} (apsw's own)")
    fences = Fences()
    fences.close()
    others = "; ".join(f"{kind}: {reason}" for kind, reason in fences.why_not.items())
    yield Finding(True, "tools", _FENCES[fences.kind] + (f" ({others})" if others else ""))
    path = store_path(asked.store)
    try:
        with desk(asked) as here:
            yield from _examine_store(here, path)
    except PullcordError as error:
        yield Finding(False, "store", str(error))


def _neither_undone_nor_approved(run: Run) -> set[str]:
    asked = {question.tool for question in run.questions.values()}
    return {
        step.tool
        for step in run.steps.values()
        if step.tool and step.effect == "once" and not step.undoable and step.tool not in asked
    }


def _examine_store(here: Desk, path: str) -> Iterator[Finding]:
    size = os.stat(path).st_size
    yield Finding(True, "store", f"{path}, {size / 1e6:.1f} MB, schema {len(MIGRATIONS)}")
    disk = os.statvfs(os.path.dirname(os.path.abspath(path)))
    free = disk.f_bavail * disk.f_frsize
    yield Finding(free > _ENOUGH_BYTES, "disk", f"{free / 1e9:.1f} GB free")
    heads = here.read(
        lambda view: view.heads(states=LIVING, thread=None, before=None, limit=10_000)
    )
    counts = Counter(head.state for head in heads)
    said = ", ".join(f"{counts[state]} {state}" for state in RunState if counts[state])
    yield Finding(True, "living runs", said or "none")
    for owner in sorted({head.holder.owner for head in heads if is_gone(head.holder.owner)}):
        held = sum(head.holder.owner == owner for head in heads)
        yield Finding(True, "died", f"{owner} held {held} run(s); the next process takes over")
    for head in heads:
        try:
            run = here.read(lambda view, head=head: load(view, head))
            records = here.read(lambda view, run=run: records_of(view, run.id, 0, 1))
        except PullcordError as error:
            yield Finding(False, "damaged", str(error))
            continue
        if head.state in NEEDS_OWNER and not here.is_driven(head):
            yield Finding(False, "not driven", f"{run.id}: {nobody(run, records)}")
        for tool in sorted(_neither_undone_nor_approved(run)):
            said = f"{line(tool, 60)} acts once, cannot be undone, and asks nobody"
            yield Finding(True, "tool", f"{run.id}: {said}")
        for item, text in run.attention.items():
            yield Finding(False, "look at", f"{run.id} {item}: {line(text)}")
