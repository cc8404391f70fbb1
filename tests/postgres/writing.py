"""Small writes for tests that look at the store and not at the rules."""

from pullcord.core.commands import Pause
from pullcord.core.events import Created, StepStarted
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Claim, Ledger
from pullcord.journal.store import Store


def born(run_id: str) -> Append:
    return Append(run_id=run_id, events=[Created(agent="churn", thread=run_id)], expected_seq=0)


def create(store: Store, *run_ids: str) -> None:
    ledger = Ledger(store.clock)
    for run_id in run_ids:
        store.write(lambda tx, r=run_id: ledger.append(tx, born(r)))


def runs(store: Store) -> list[str]:
    return [row.run_id for row in store.read(lambda view: view.kept(since=0, limit=10_000))]


def started(claim: Claim, seq: int, step: str = "a") -> Append:
    event = StepStarted(step=step, name=step)
    return Append(
        run_id=claim.lease.run_id, events=[event], expected_seq=seq, epoch=claim.lease.epoch
    )


async def pauses(journal: Journal, run_id: str, key: str | None = None) -> str:
    return (await journal.command(run_id, Pause(by="ana", key=key))).verdict
