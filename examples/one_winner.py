"""An agent finishes in the very moment somebody cancels it. Exactly one wins, and both are told."""

import asyncio

from pullcord import Append, Cancel, Journal, Ownership
from pullcord.core.events import Completed, Created


async def main() -> None:
    async with Journal.open(":memory:") as journal:
        born = Created(agent="churn-report", thread="t1")
        await journal.append(Append(run_id="r1", events=[born], expected_seq=0))
        claim = await journal.acquire("r1", owner="worker-1", ttl_s=30)
        assert claim is not None
        recorded, ack = await asyncio.gather(
            Ownership(journal, claim).record(Completed()),
            journal.command("r1", Cancel(by="ana", reason="wrong path")),
        )
        print(f"the agent recorded: {[type(event).__name__ for event in recorded]}")
        print(f"ana was told: {ack.verdict}, record {ack.seq} won. {ack.message}")


asyncio.run(main())
