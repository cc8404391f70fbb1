"""Runs of a prompt's own words in text that comes in pieces.

A model that recites its prompt seldom begins where a canary was planted. Every run of twelve words
of the prompt is therefore a *window*, kept as its folded letters in one sorted list: how the words
are set apart, their case and look-alike letters make no difference. A text is compared with the
list by bisection, so the cost per character does not grow with the prompt.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from pullcord.core.text.phrases import Found, any_of, folded

RUN_WORDS: Final = 12
WHOLE_WORDS: Final = 6  # a shorter prompt than twelve words, and at least this long, is one window
_LETTERS_MIN: Final = 24  # a run of very short words is taken to be longer
_NAMES_MIN: Final = 8  # so many of the words have a letter in them: a row of numbers is no run
_OWN_MIN: Final = 6  # so many of them are in no passage that may be quoted
_HEAD: Final = 6  # letters that must fit before it is looked at more closely


class Excerpts:
    """The windows of one prompt. Stands where an `Automaton` does; its state is a depth."""

    def __init__(self, planted: str, prompt: str, *, quotable: Iterable[str] = ()) -> None:
        """`planted`: the prompt with what was added. `quotable`: passages that may be said."""
        words = _words(planted)
        free = _places_of(quotable, folded(planted))
        found = {*_windows(words, free), *_whole(_words(prompt), is_quotable=bool(free))}
        if not folded(planted).endswith(folded(prompt)):
            found.update(_ends(words))
        self._windows = list(_without_longer(sorted(found)))
        self._longest = max(map(len, self._windows), default=0)
        heads = {window[:_HEAD] for window in self._windows}
        self._head = re.compile(any_of(heads)).search
        self._starts = {head[:n] for head in heads for n in range(1, _HEAD)}
        self._is_known: Callable[[str], bool] | None = None
        self.leads = self.symbols = frozenset[str]()
        self.reach = 1

    def __bool__(self) -> bool:
        return bool(self._windows)

    def knowing(self, is_known: Callable[[str], bool]) -> "Excerpts":
        """The same windows, but for those that have come from outside in this conversation, as
        their letters tell."""
        mine = object.__new__(Excerpts)
        mine.__dict__.update(self.__dict__, _is_known=is_known)
        return mine

    def depth(self, state: int) -> int:
        return state

    def run(self, text: str, at: int, state: int) -> tuple[int, Found | None]:
        """Go on with `text[at:]`, of which `state` letters before `at` are held. Return how many
        letters are held after it, or the first window."""
        start, size = at - state, len(text)
        while (head := self._head(text, start)) is not None:
            start = head.start()
            window, is_open = self._compared(text[start : start + self._longest])
            if window and not (self._is_known and self._is_known(window)):
                return 0, Found(0, start, False)
            if is_open and start + self._longest > size:
                return size - start, None
            start += 1
        for last in range(max(start, size - _HEAD + 1), size):
            if text[last:] in self._starts:
                return size - last, None
        return 0, None

    def _compared(self, letters: str) -> tuple[str, bool]:
        """The window that they begin with, and whether they may be the beginning of one."""
        windows = self._windows
        place = bisect_right(windows, letters)
        before = windows[place - 1] if place else ""
        is_open = place < len(windows) and windows[place].startswith(letters)
        return (before if before and letters.startswith(before) else ""), is_open

    def all_in(self, text: str) -> set[str]:
        """The windows that stand in a text."""
        letters, start = folded(text), 0
        found: set[str] = set()
        while (head := self._head(letters, start)) is not None:
            start = head.start()
            found.add(self._compared(letters[start : start + self._longest])[0])
            start += 1
        return found - {""}


class _Word(NamedTuple):
    letters: str  # as they are folded
    is_named: bool  # it is not only a number


def _words(text: str) -> list[_Word]:
    """The words of a text. What has no letter or digit is none."""
    said = re.findall(r"\S+", text)
    return [_Word(folded(s), any(map(str.isalpha, s))) for s in said if folded(s)]


def _windows(words: Sequence[_Word], free: Sequence[tuple[int, int]]) -> Iterator[str]:
    """For each word the run that begins with it, if there is one."""
    ends = [0]
    for word in words:
        ends.append(ends[-1] + len(word.letters))
    is_named = [word.is_named for word in words]
    is_own = [not any(a <= start and end <= b for a, b in free) for start, end in pairwise(ends)]
    letters = "".join(word.letters for word in words)
    for first in range(len(words)):
        last = first + RUN_WORDS
        while last <= len(words):
            is_long = ends[last] - ends[first] >= _LETTERS_MIN
            if is_long and sum(is_named[first:last]) >= _NAMES_MIN:
                break
            last += 1
        if last <= len(words) and sum(is_own[first:last]) >= _OWN_MIN:
            yield letters[ends[first] : ends[last]]


def _ends(words: Sequence[_Word]) -> Iterator[str]:
    """The last runs, too short to be known by their words alone. Each has in it what was planted
    behind the prompt, so nothing else is held back or cut for them."""
    for first in range(max(len(words) - RUN_WORDS, 0) + 1, len(words)):
        yield "".join(word.letters for word in words[first:])


def _whole(words: Sequence[_Word], *, is_quotable: bool) -> Iterator[str]:
    letters = "".join(word.letters for word in words)
    is_short = WHOLE_WORDS <= len(words) < RUN_WORDS and len(letters) >= _LETTERS_MIN
    if is_short and not is_quotable:
        yield letters


def _places_of(passages: Iterable[str], letters: str) -> list[tuple[int, int]]:
    """Where in the letters of a prompt the passages are that may be quoted."""
    found: list[tuple[int, int]] = []
    for passage in map(folded, passages):
        start = letters.find(passage)
        while start >= 0:
            found.append((start, start + len(passage)))
            start = letters.find(passage, start + 1)
    return found


def _without_longer(windows: Sequence[str]) -> Iterator[str]:
    """Sorted windows, without those that begin with another: that one is found before."""
    last = ""
    for window in windows:
        if not last or not window.startswith(last):
            yield window
            last = window
