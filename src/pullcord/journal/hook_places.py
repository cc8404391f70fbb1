"""How far each hook was told, durable beside the records that it is told of.

A place is a number in the order of commit over all runs. One process at a time tells a hook: it
holds the place by a lease, like a run; who dies is replaced at once, who is silent after a while.
"""

from pullcord.core.values import check_text
from pullcord.journal.clock import Clock
from pullcord.journal.rules.leases import NOBODY, until
from pullcord.journal.store import Holder, HookPlace, Transaction
from pullcord.journal.writer import Writer
from pullcord.process import is_gone


class HookPlaces:
    """The places of all hooks of one store."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer, self._clock = writer, clock

    async def meet(self, name: str, *, formerly: str = "") -> int:
        """Return where this hook is. One that nobody has met before begins at the end: now.

        One that was met by the name it had `formerly` goes on where it was, and is told by whoever
        told it; that name is not kept.
        """
        check_text(name, field="name of a hook")

        def work(tx: Transaction) -> int:
            known, before = tx.hook(name), tx.hook(formerly) if formerly else None
            if known is None:
                known = before or HookPlace(tx.position()[0])
                tx.put_hook(name, known)
            if before is not None:
                tx.drop_hook(formerly)
            return known.pos

        return await self._writer.write(work)

    async def take(self, name: str, *, owner: str, ttl_s: float) -> int | None:
        """Be who tells it, for so long, and return how far it was told. None: another is."""

        def work(tx: Transaction) -> int | None:
            known = tx.hook(name) or HookPlace(tx.position()[0])
            if known.holder.owner != owner and self._is_held(known.holder):
                return None
            tx.put_hook(name, HookPlace(known.pos, self._until(owner, ttl_s)))
            return known.pos

        return await self._writer.write(work)

    async def move(self, name: str, pos: int, *, owner: str, ttl_s: float) -> bool:
        """It was told up to there. False: another tells it by now, and nothing was changed."""

        def work(tx: Transaction) -> bool:
            known = tx.hook(name)
            is_mine = known is not None and known.holder.owner == owner
            if is_mine:
                tx.put_hook(name, HookPlace(pos, self._until(owner, ttl_s)))
            return is_mine

        return await self._writer.write(work)

    async def let_go(self, name: str, *, owner: str) -> None:
        """Somebody else may tell it from here on."""

        def work(tx: Transaction) -> None:
            known = tx.hook(name)
            if known is not None and known.holder.owner == owner:
                tx.put_hook(name, HookPlace(known.pos, NOBODY))

        await self._writer.write(work)

    async def committed(self, *, after_pos: int, limit: int) -> list[tuple[int, str, int]]:
        """Return the place, the run and the number of what was recorded after a place."""
        return await self._writer.read(
            lambda view: view.committed(after_pos=after_pos, limit=limit)
        )

    def _until(self, owner: str, ttl_s: float) -> Holder:
        return until(owner, self._clock.boot_time(), ttl_s)

    def _is_held(self, by: Holder) -> bool:
        now = self._clock.boot_time()
        is_in_time = by.boot == now.boot and by.until_s > now.seconds
        return bool(by.owner) and is_in_time and not is_gone(by.owner)
