"""Promise: however much an owner writes, a control from another process gets its turn.

Counted, not timed: between the asking and the record of a control the busy process may get a few
commits in, never an unbounded number.
"""

from pathlib import Path

from pullcord.core.commands import Redirect
from pullcord.core.events import Created
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append
from tests.promises.children import child

CONTROLS = 60
COMMITS_BETWEEN = 8  # 1 or 2 in practice; without the turnstile up to 53 were seen


async def test_every_control_gets_its_turn_between_a_busy_owners_commits(tmp_path: Path) -> None:
    store = str(tmp_path / "runs.db")
    async with child("tests.promises.owners", "busy", store, "busy") as owner:
        assert await owner.says() == "busy"
        async with Journal.open(store) as journal:
            created = Created(agent="churn", thread="t1")
            await journal.append(Append(run_id="r1", events=[created], expected_seq=0))
            waited = [await commits_while_asking(journal, number) for number in range(CONTROLS)]
        await owner.tell("stop")
        assert await owner.says() == "done"
    print(f"{CONTROLS} controls, commits while asking: {sorted(waited)}")
    assert max(waited) <= COMMITS_BETWEEN


async def commits_while_asking(journal: Journal, number: int) -> int:
    before = await commits(journal)
    ack = await journal.command("r1", Redirect(by="ana", instruction=f"instruction {number}"))
    assert ack.verdict == "applied"
    return await commits(journal) - before - 1


async def commits(journal: Journal) -> int:
    return sum(head.seq for head in await journal.runs())
