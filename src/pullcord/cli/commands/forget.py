"""forget: delete what was said and done in runs that have ended; first say what that would be."""

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from pullcord.cli.arguments import seconds_of
from pullcord.cli.as_json import print_said
from pullcord.cli.local_runs import existing_store, local_runs, whoami
from pullcord.cli.render.json_shapes import ForgetShown
from pullcord.cli.render.run_text import SIGN, coloured, line
from pullcord.client.secret_names import from_environment
from pullcord.core.show.words import count
from pullcord.core.states import TABLE, TERMINAL, RunState
from pullcord.errors import InvalidInput
from pullcord.journal.stored_runs.retention import Candidate
from pullcord.runtime.forgetting import Forgetting
from pullcord.runtime.opening import open_runtime

_REFUSED: Final = 3
_FILES: Final = {
    "gone": "The bytes are gone from the store's files.",
    "held": "Somebody reads the store as it was before: until that ends, old bytes are still in\n"
    "its write-ahead log. Finish it later: pullcord forget --yes --rewrite",
    "traces": "They are overwritten where they stood. Stray copies that SQLite made may be left,\n"
    "and this store is too large to be written anew while others wait. When nobody needs it for\n"
    "a while: pullcord forget --yes --rewrite",
    "logged": "Nothing of them is left in the tables. What the server has logged, sent to\n"
    "standbys or saved elsewhere is out of reach from here: its administrator's to delete.",
}
_STAYS: Final = (
    "What stays: that each ran, when, its agent, thread and state, the numbers that it used, who\n"
    "had it deleted and why, and the hashes of its records. The thread's name goes with\n"
    "--drop-thread-name."
)


def carry_out(asked: Any) -> int:
    age = asked.older_than
    if not (asked.runs or asked.thread or asked.of or age):
        age = asked.retain
    if not (asked.runs or asked.thread or asked.of or age or asked.rewrite):
        raise InvalidInput(
            "Nobody is meant. Nothing was deleted. Name runs, or --older-than 90d, --thread ID, "
            '--of NAME; or set retain = "90d" in pullcord.toml.'
        )
    if asked.runs:
        with local_runs(asked) as here:
            asked.runs = [here.find(said) for said in asked.runs]
    made = asyncio.run(_forget(asked, seconds_of(age) if age else None))
    print_said(asked, msgspec.convert(made, ForgetShown, from_attributes=True), _told(made))
    return _REFUSED if asked.runs and made.kept else 0


async def _forget(asked: Any, older_than_s: float | None) -> Forgetting:
    path = existing_store(asked)
    async with open_runtime(path, secrets=from_environment()) as runtime:
        return await runtime.forget(
            *asked.runs,
            older_than_s=older_than_s,
            states=_states(asked, older_than_s),
            thread=asked.thread,
            of=asked.of,
            yes=asked.yes,
            drop_thread_name=asked.drop_thread_name,
            rewrite=asked.rewrite,
            by=whoami(asked.by),
            reason=asked.reason,
        )


def _states(asked: Any, older_than_s: float | None) -> Iterable[RunState]:
    if not (asked.runs or asked.thread or asked.of or older_than_s is not None):
        return ()  # no run is meant, only the file
    return [RunState(name) for name in asked.state] or TERMINAL


def _told(made: Forgetting) -> list[str]:
    runs = count(len(made.gone), "run")
    records = count(sum(one.records for one in made.gone), "record")
    size = sum(one.bytes for one in made.gone)
    head = "Deleted" if made.is_done else "Would delete"
    told = [f"{head} the payloads of {runs}: {records}, {size:,} bytes."]
    told += [_line(one, made.is_done) for one in made.gone]
    if made.kept:
        told += ["", coloured("Kept", "1")]
        told += [f"  {line(one.kept, 1000)}" for one in made.kept]
    if not made.is_done:
        if made.gone:
            told += ["", _STAYS]
        return [*told, "", "Nothing was deleted. If that is meant: the same again with --yes"]
    return [*told, "", _FILES[made.files]]


def _line(one: Candidate, is_done: bool) -> str:
    name = TABLE[one.state].label
    notes = f" · {one.records:,} records · {one.bytes:,} bytes"
    if one.undoable and not is_done:
        notes += f" · {one.undoable} could still be undone, then no more"
    if one.forks:
        notes += f" · its input is also in {', '.join(one.forks[:5])}"
    return f"  {SIGN[one.state]} {name:<11}{line(one.run):<14} {line(one.agent, 40)}{notes}"
