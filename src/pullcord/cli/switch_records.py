"""What the journal is told of the kill switch. It may be gone: then that is said."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from pullcord.core.states import RunState
from pullcord.errors import PullcordError
from pullcord.journal.bystanders import unasked
from pullcord.journal.holding import held_runs, lower, outcomes, to_hold, unnoted
from pullcord.journal.ledger import Ledger
from pullcord.journal.opening import opened
from pullcord.journal.place import beside
from pullcord.journal.store import Store
from pullcord.killswitch.flags import Flags, Scope
from pullcord.killswitch.pulled import Pulled

_BUSY_S: Final = 2.0


def hold(path: str, flags: Flags, scope: Scope, pulled: Pulled) -> tuple[list[str], Pulled, str]:
    """Pause whatever it reaches. Return what is held, what has been done about this one (`pulled`,
    and who else is there, as the journal knows), and why that is not recorded, if so."""
    try:
        with _opened(path) as store:
            now, side = store.clock.boot_time(), f"{store.beside}-side"
            others = store.read(lambda view: unasked(view, flags, now, side))
            pulled = pulled._replace(left=[*pulled.left, *others])
            ledger = Ledger(store.clock, flags=flags)
            for flag in store.read(lambda view: unnoted(view, flags)):
                store.write(lambda tx, f=flag: ledger.engaged(tx, f))
            store.write(lambda tx: ledger.answered(tx, scope, pulled))
            for run_id, flag in store.read(lambda view: to_hold(view, flags)):
                store.write(lambda tx, r=run_id, f=flag: ledger.hold(tx, r, f))
            store.poke()
            return store.read(lambda view: held_runs(view, flags)), pulled, ""
    except PullcordError as error:
        return [], pulled, str(error)


def held(path: str, flags: Flags) -> tuple[list[str], list[Pulled], str]:
    """The runs in its reach, what pulling it did, and why that cannot be told, if so."""
    try:
        with _opened(path) as store:
            return *store.read(lambda view: (held_runs(view, flags), outcomes(view, flags))), ""
    except PullcordError as error:
        return [], [], str(error)


def release(path: str, scope: Scope, *, by: str, reason: str, via: str) -> list[str]:
    """Record that it is released, and only then release it. Return what stays paused.

    Raises:
        InvalidInput: it is not engaged.
        StorageFailed: it stays engaged.
    """
    flags = Flags(beside(path))
    with _opened(path) as store:
        left = store.read(lambda view: held_runs(view, flags, [RunState.PAUSED]))
        ledger = Ledger(store.clock, flags=flags)
        store.write(lambda tx: ledger.released(tx, scope, by=by, reason=reason, via=via))
        lower(flags, scope)
        store.poke()
        return left


@contextmanager
def _opened(path: str) -> Generator[Store]:
    store = opened(path, busy_timeout_s=_BUSY_S, make=False)
    try:
        yield store
    finally:
        store.close()
