"""What the journal is told of the kill switch. It may be gone: then that is said."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from pullcord.core.states import RunState
from pullcord.errors import PullcordError
from pullcord.journal.open_store import opened
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.rules.switch_pauses import (
    PAUSED_S,
    check_engaged,
    held_runs,
    lower,
    outcomes,
    to_hold,
    unnoted,
)
from pullcord.journal.rules.undriven_stops import Stopping, perform
from pullcord.journal.store import Store
from pullcord.journal.store_location import beside
from pullcord.journal.unreached import unasked
from pullcord.killswitch.flags import Flags, Raised, Scope
from pullcord.killswitch.pulled import Pulled

_BUSY_S: Final = 2.0


def hold(path: str, flags: Flags, scope: Scope, pulled: Pulled) -> tuple[list[str], Pulled, str]:
    """Pause whatever it reaches. Return what is held, what has been done about this one (`pulled`,
    and who else is there, as the journal knows), and why that is not recorded, if so."""
    try:
        with _opened(path) as store:
            raised = flags.look()
            now, side = store.clock.boot_time(), f"{store.beside}-side"
            others = store.read(lambda view: unasked(view, raised, now, side))
            pulled = pulled._replace(left=[*pulled.left, *others])
            ledger = Ledger(store.clock, flags=flags)
            for flag in store.read(lambda view: unnoted(view, raised)):
                store.write(lambda tx, f=flag: ledger.engaged(tx, f, raised))
            store.write(lambda tx: ledger.answered(tx, scope, pulled, raised))
            why_not = _pause(store, ledger, raised, within_s=PAUSED_S)
            return store.read(lambda view: held_runs(view, raised)), pulled, why_not
    except PullcordError as error:
        return [], pulled, str(error)


def _pause(store: Store, ledger: Ledger, raised: Raised, *, within_s: float) -> str:
    """Pause what it reaches, as far as there is time: the rest cannot start either, and is paused
    by a runtime, or by the release. Return why a run is not paused, if so."""
    found = store.read(lambda view: to_hold(view, raised))
    steps = Stopping(ledger, store.beside).hold(found, within_s=within_s)
    return str(perform(steps, store).trouble or "")


def held(path: str, flags: Flags) -> tuple[list[str], list[Pulled], str]:
    """The runs in its reach, what pulling it did, and why that cannot be told, if so."""
    try:
        with _opened(path) as store:
            raised = flags.look()
            return *store.read(lambda view: (held_runs(view, raised), outcomes(view, raised))), ""
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
        raised = flags.look()
        check_engaged(raised, scope)
        ledger = Ledger(store.clock, flags=flags)
        _pause(store, ledger, raised, within_s=math.inf)  # it would start behind the release
        left = store.read(lambda view: held_runs(view, raised, [RunState.PAUSED]))
        store.write(lambda tx: ledger.released(tx, scope, raised, by=by, reason=reason, via=via))
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
