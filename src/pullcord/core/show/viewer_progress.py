"""How far somebody is who watches a run: what was handed to a connection or a terminal."""

from collections.abc import Iterable

from pullcord.core.stops import LISTED_MAX, StopShown, Viewer


class ViewerProgress:
    """Told of what is about to be handed over, and then that it was `taken`."""

    def __init__(self, who: str, via: str, *, seq: int = 0) -> None:
        self._who, self._via = who, via
        self._seq, self._said = seq, dict[str, int]()
        self._next_seq, self._next_said = seq, dict[str, int]()
        self._is_ahead = False

    def text(self, part: str, end: int) -> None:
        """A piece of a part that has not ended: up to this character."""
        self._next_said[part] = end
        self._is_ahead = True

    def record(self, seq: int, *, ended: str = "") -> None:
        """A record; with `ended`, one that has this whole part in it."""
        self._next_seq = max(self._next_seq, seq)
        self._next_said.pop(ended, None)
        self._is_ahead = True

    def taken(self) -> None:
        if self._is_ahead:
            self._seq, self._said = self._next_seq, dict(self._next_said)
            self._is_ahead = False

    def viewer(self) -> Viewer:
        """What was handed over by now, for certain."""
        return Viewer(
            who=self._who,
            via=self._via,
            seq=self._seq,
            said=dict(self._said),
            sending=self._is_ahead,
        )


def shown(asked_seq: int, watching: Iterable[ViewerProgress]) -> StopShown:
    """Who watched when the stop of this record was heard: those who are furthest first."""
    viewers = [handed.viewer() for handed in watching]
    viewers.sort(key=lambda one: (-one.seq, -sum(one.said.values()), one.who, one.via))
    others = max(len(viewers) - LISTED_MAX, 0)
    return StopShown(asked_seq=asked_seq, viewers=tuple(viewers[:LISTED_MAX]), others=others)
