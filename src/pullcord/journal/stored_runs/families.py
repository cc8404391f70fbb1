"""A run and those who work for it, read as one: who they are, and what of their work is undone.

A run's own records do not tell what its children did. Families may be deep and wide: everything
here goes through them with a list of what is still to be looked at, never by calling itself.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from pullcord.core.run import Run
from pullcord.core.undo import children_to_undo, to_undo, when_done, would_undo
from pullcord.journal.store import View
from pullcord.journal.stored_runs.run_records import existing
from pullcord.journal.stored_runs.snapshots import load

Find = Callable[[str], Run | None]


class Effect(NamedTuple):
    """Something that a run of a family did and that is to be undone."""

    run: str
    step: str
    child: str = ""  # the child of the cancelled run that it was done for; empty: its own


def finding(view: View) -> Find:
    """Finds a run as it is in this look at the store."""

    def find(run_id: str) -> Run | None:
        head = view.head(run_id)
        return load(view, head) if head else None

    return find


def works_for(view: View, run_id: str, above: str) -> bool:
    """Whether it is that run, or was started under it, by whomever."""
    name: str | None = run_id
    while name is not None and name != above:
        head = view.head(name)
        name = head.parent if head else None
    return name == above


def living(run: Run, find: Find) -> Iterator[Run]:
    """Those who work for the run now: awaited children, and theirs."""
    names = run.living_children()
    while names:
        if (one := find(names.pop())) is not None:
            yield one
            names += one.living_children()


def members(run: Run, find: Find) -> Iterator[tuple[Run, bool]]:
    """Everybody who works for the run or has worked for it, the elder first; and of each whether
    what it did is final, because it, or one it worked for, was started so and has completed."""
    todo = [(name, False) for name in reversed(run.children)]
    parents = dict.fromkeys(run.children, run)
    while todo:
        name, is_final = todo.pop()
        known = parents.pop(name).children[name]
        if known.detached or (one := find(name)) is None:
            continue
        is_final = is_final or (bool(known.state) and not known.is_provisional)
        yield one, is_final
        parents |= dict.fromkeys(one.children, one)
        todo += [(child, is_final) for child in reversed(one.children)]


def effects_to_undo(view: View, run_id: str) -> list[Effect]:
    """What is still to be undone of the run and of those who worked for it, in the order in which
    that is done: the newest first, over all of them."""
    run, find = load(view, existing(view, run_id)), finding(view)
    found = {Effect(run_id, step): when_done(run.steps[step]) for step in to_undo(run)}
    for one, child in _below(run, find):
        for step in would_undo(one):
            if run.ended or one.steps[step].undo != "failed":  # it was asked for anew, or is named
                found[Effect(one.id, step, child)] = when_done(one.steps[step])
    places = view.places([(effect.run, seq) for effect, seq in found.items()])
    after = 0
    if run.cancel and run.cancel.back_to in run.steps and not run.ended:
        [after] = view.places([(run_id, when_done(run.steps[run.cancel.back_to]))])
    newest = sorted(zip(places, found, strict=True), reverse=True)
    return [effect for place, effect in newest if place > after]


def undone_of(view: View, run_id: str) -> int:
    """How many steps of the run, and of those who worked for it, are undone."""
    run, find = load(view, existing(view, run_id)), finding(view)
    family = [run, *(one for one, is_final in members(run, find) if not is_final)]
    return sum(step.undo == "undone" for one in family for step in one.steps.values())


def _below(run: Run, find: Find) -> Iterator[tuple[Run, str]]:
    """The ended runs that worked for it and whose work is undone with its own, each with the child
    of the run through which it did."""
    todo = [(name, name) for name in children_to_undo(run)]
    while todo:
        name, child = todo.pop()
        one = find(name)
        is_kept = one is None or (
            one.cancel is not None and not one.cancel.undo and one.cancel.source != "parent"
        )
        if one is None or is_kept or not one.ended:
            continue
        yield one, child
        todo += [(n, child) for n, known in one.children.items() if known.is_provisional]
