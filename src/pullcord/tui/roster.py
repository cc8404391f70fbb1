"""The list of runs: those that need a person first, then the newest. Changed one run at a time."""

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Final, NamedTuple, TypeAlias

from pullcord.core.show.panel import Panel

Key: TypeAlias = tuple[bool, int, str]
_SEARCHED: Final = ("run", "agent", "thread", "title", "label", "doing", "by", "reason")


class RosterRow(NamedTuple):
    panel: Panel
    at_s: float  # when this came, by the clock of the screen: what ticks has grown since


def needs_somebody(panel: Panel) -> bool:
    return panel.wants > 0 or panel.attention > 0 or bool(panel.raise_)


class Roster:
    """Every run that is known, and which of them are listed, in order.

    The run that somebody looks at (`kept`) stays listed whatever becomes of it: a list that lets
    it go would put another run under the finger.
    """

    def __init__(self) -> None:
        self.rows: dict[str, RosterRow] = {}
        self.kept = ""
        self._keys: list[Key] = []
        self._words: tuple[str, ...] = ()
        self._living_only = False
        self._counts = {"need": 0, "living": 0}

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def needing(self) -> int:
        return self._counts["need"]

    @property
    def living(self) -> int:
        return self._counts["living"]

    def at(self, place: int) -> str:
        """The run in this place of the list."""
        return self._keys[place][2]

    def place(self, run_id: str) -> int | None:
        """Where a run is listed."""
        if (row := self.rows.get(run_id)) is None:
            return None
        key = _key(row.panel)
        found = bisect_left(self._keys, key)
        return found if found < len(self._keys) and self._keys[found] == key else None

    def take(self, panels: Iterable[Panel], now_s: float) -> set[str] | None:
        """Note how these runs are. Return those that are listed where they were, or None: the
        order is another. What is older than what is known is not news."""
        stayed, is_moved = set[str](), False
        for panel in panels:
            before = self.rows.get(panel.run)
            if before and panel.seq < before.panel.seq:
                continue
            was = self.place(panel.run)
            key = _key(before.panel) if before else None
            self.rows[panel.run] = RosterRow(panel, now_s)
            self._count(before.panel if before else None, panel)
            if was is not None and self._is_listed(panel) and _key(panel) == key:
                stayed.add(panel.run)
                continue
            if was is not None:
                del self._keys[was]
            if self._is_listed(panel):
                insort(self._keys, _key(panel))
            is_moved = is_moved or was is not None or self._is_listed(panel)
        return None if is_moved else stayed

    def narrow(self, words: str, *, living_only: bool) -> None:
        """List only the runs that have all of these words, or only those that have not ended."""
        self._words = tuple(words.lower().split())
        self._living_only = living_only
        self._keys = sorted(_key(r.panel) for r in self.rows.values() if self._is_listed(r.panel))

    def keep(self, run_id: str) -> bool:
        """Look at this run from now on. Return whether the list has changed: the one before may
        have been listed only because somebody looked at it."""
        before, self.kept = self.rows.get(self.kept), run_id
        is_over = before is not None and not self._is_listed(before.panel)
        if before and is_over and (place := self.place(before.panel.run)) is not None:
            del self._keys[place]
            return True
        return False

    def first_that_waits(self) -> str:
        """The first listed run that waits for somebody's word, if there is one."""
        for _, _, run_id in self._keys:
            if self.rows[run_id].panel.wants:
                return run_id
        return ""

    def _is_listed(self, panel: Panel) -> bool:
        if panel.run == self.kept:
            return True
        if self._living_only and panel.ended and not needs_somebody(panel):
            return False
        if not self._words:
            return True
        searched = " ".join(getattr(panel, field) for field in _SEARCHED).lower()
        return all(word in searched for word in self._words)

    def _count(self, before: Panel | None, after: Panel) -> None:
        for panel, one in ((before, -1), (after, 1)):
            if panel:
                self._counts["need"] += one * needs_somebody(panel)
                self._counts["living"] += one * (not panel.ended)


def _key(panel: Panel) -> Key:
    return not needs_somebody(panel), -panel.created_at_ms, panel.run
