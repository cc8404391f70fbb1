"""Make the stored journal of this version: `python -m tests.corpus.make 0.1.0`. Once per release.

The lives are those of the crash scenarios, each in runs of its own, and some whole runs.
"""

import asyncio
import sys
from hashlib import sha256
from pathlib import Path

import msgspec

from pullcord.core.receipts import heading, receipt
from pullcord.core.run import Run
from pullcord.journal.journal import Journal
from pullcord.testing import ManualClock
from tests.crash.runs import (
    a_cancel_that_releases,
    a_fork,
    a_quarantine,
    a_question,
    a_redirected_plan,
    a_shutdown_without_grace,
    a_sleep,
    a_tree_that_is_paused,
    streamed_text_that_is_cut,
)
from tests.crash.scenarios import REPEATABLE

WHOLE_RUNS = (
    *(a_cancel_that_releases, a_fork, a_quarantine, a_question, a_redirected_plan, a_sleep),
    *(a_shutdown_without_grace, a_tree_that_is_paused, streamed_text_that_is_cut),
)
FOLDER = Path(__file__).parent


SINCE_0_1_0 = (
    *("run_id", "state", "done", "undone", "could_not_undo", "in_doubt", "failed", "interrupted"),
    *("not_attempted", "partial_text", "attention", "cost", "by", "reason", "source"),
    *("asked_at_ms", "effect_at_ms", "rung"),
)
_Left = msgspec.defstruct("_Left", SINCE_0_1_0)
_CHILD_SINCE_0_1_0 = (("detached", bool, False), ("state", str, ""))
_Child = msgspec.defstruct("_Child", _CHILD_SINCE_0_1_0, omit_defaults=True)


def fingerprint(run: Run) -> str:
    """What a run left behind, short enough to store beside it. Of public things only, and of those
    that every version has: how a run is kept in memory may change, and a receipt may grow, as may
    what is known of a child. Steps and parts of text are named as they were recorded: what a
    receipt calls them for people may change."""
    found = {name: getattr(receipt(run), name) for name in SINCE_0_1_0}
    for under in ("done", "undone", "could_not_undo", "in_doubt", "failed", "interrupted"):
        steps = (step for step in run.steps.values() if not step.model)
        found[under] = [s.name for s in steps if heading(s, ended=run.ended) == under]
    cut = (part for part, is_whole in run.texts.items() if not is_whole)
    found["partial_text"] = [part for part in cut if not part.startswith("think-")]
    made = _Left(**found)
    told = [(told.text, told.status) for told in run.instructions.values()]
    children = {name: _Child(one.detached, one.state) for name, one in run.children.items()}
    left = (made, run.seq, run.epoch, told, children)
    return sha256(msgspec.json.encode(left, order="deterministic")).hexdigest()


async def main(version: str) -> None:
    folder = FOLDER / version
    folder.mkdir()
    expected: dict[str, dict[str, str]] = {}
    lives = [(scenario, ManualClock()) for scenario in REPEATABLE]
    for scenario, clock in [*lives, *((whole, None) for whole in WHOLE_RUNS)]:
        path = folder / f"{scenario.__name__}.db"
        async with Journal.open(path, clock=clock) as journal:
            await scenario(journal, lambda _: None)
        async with Journal.open(path) as journal:
            runs = [head.run_id for head in await journal.runs(limit=1000)]
            expected[path.name] = {run: fingerprint(await journal.load(run)) for run in runs}
        for left in folder.glob("*-side/*"):
            left.unlink()
        path.with_name(path.name + "-side").rmdir()
    (folder / "expected.json").write_bytes(
        msgspec.json.format(msgspec.json.encode(expected, order="deterministic")) + b"\n"
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
