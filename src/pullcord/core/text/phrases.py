"""Fixed strings in text that comes in pieces, in every disguise that keeps them readable.

All disguises of all phrases are one automaton (Aho and Corasick's) over folded text: its state is
the longest end of the text so far that may still become a match. Ordinary text hardly touches it:
where no three letters in a row begin anything, a regular expression finds that out in C.
"""

import codecs
import json
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Final, NamedTuple, Protocol
from urllib.parse import quote

from pullcord.core.text.lookalikes import FOLDED, HIDDEN, has_carriers

_HEAD: Final = 3  # letters that must fit before it is looked at more closely
_BASE64: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_CODED_MAX: Final = 64  # characters, each written as a number, that are enough to know a phrase by
_SYMBOLS: Final = frozenset("+/-_")  # of base64 and its variant for URLs; folding drops them
_ESCAPES: Final = frozenset("%\\&#")  # what stands before an escaped character


def folded(text: str) -> str:
    """The letters and digits of a text as they look, in one case."""
    return text.translate(FOLDED)


def disguises(phrase: str) -> dict[str, bool]:
    """Everything to look for in folded text: the phrase itself, backwards, rotated, and encoded
    (base64 wherever it begins in what is encoded, hex, percent, escapes, character codes); and
    whether the character before it has a part in it, too."""
    found = {phrase, phrase[::-1], codecs.encode(phrase, "rot13")}
    found |= {quote(phrase, safe=""), json.dumps(phrase)[1:-1]}
    led: set[str] = set()
    for form in _forms(phrase):
        data = form.encode(errors="replace")
        found |= {data.hex(), _encoded(data, 0)}
        led |= {_encoded(data, 1), _encoded(data, 2)}
    for form in {phrase, phrase.lower(), phrase.upper()}:
        found |= _coded(form[:_CODED_MAX])
    return dict.fromkeys(map(folded, led), True) | dict.fromkeys(map(folded, found), False)


def _forms(phrase: str) -> set[str]:
    """The phrase as it may be before it is encoded: in any one case, and without its dashes."""
    bare = "".join(filter(str.isalnum, phrase))
    return {form for text in (phrase, bare) for form in (text, text.lower(), text.upper())}


def _coded(form: str) -> set[str]:
    """One number for each character, as people and languages write that; the signs around the
    numbers are dropped by folding, zeros before them are not."""
    data, codes = form.encode(errors="replace"), list(map(ord, form))
    found = {"".join(f"{lead}{byte:02x}" for byte in data) for lead in ("x", "0x")}
    for lead in ("x", "0x", "u"):
        found |= {"".join(f"{lead}{code:0{width}x}" for code in codes) for width in (1, 4, 6, 8)}
    found |= {"".join(f"{code:0{width}d}" for code in codes) for width in (1, 3, 4, 5)}
    for lead, width in (("", 3), ("0", 3), ("0o", 3), ("0o", 1)):
        found.add("".join(f"{lead}{byte:0{width}o}" for byte in data))
    return found


def _encoded(data: bytes, shift: int) -> str:
    """The characters of base64 that `data` alone decides, where it begins `shift` bytes into a
    group of three."""
    whole = b64encode(b"\0" * shift + data).decode()
    return whole[-(-shift * 8 // 6) : (shift + len(data)) * 8 // 6]


def leads(phrase: str) -> set[str]:
    """The characters of base64 before those: each has bits of the phrase's first byte in it."""
    found: set[str] = set()
    for form in _forms(phrase):
        first = form.encode(errors="replace")[0]
        found |= {_BASE64[high << 4 | first >> 4] for high in range(4)}
        found |= {_BASE64[high << 2 | first >> 6] for high in range(16)}
    return found


def _edges(phrase: str) -> Iterator[str]:
    """What a phrase begins and, read backwards, ends with that folding drops: it is a part of the
    phrase all the same."""
    for text in (phrase, phrase[::-1]):
        yield "".join(takewhile(lambda char: not folded(char), text))


class Found(NamedTuple):
    """A match in folded text: whose, and where."""

    owner: int
    start: int
    is_led: bool  # the character before it has a part in it


class Index(Protocol):
    """What text is looked up in as it comes: its state stands for the letters that are held."""

    @property
    def leads(self) -> frozenset[str]: ...
    @property
    def symbols(self) -> frozenset[str]: ...
    @property
    def reach(self) -> int: ...
    def depth(self, state: int) -> int: ...
    def run(self, text: str, at: int, state: int) -> tuple[int, Found | None]: ...


class Automaton:
    """All disguises of some phrases. Made once; every text that is looked at has its own state."""

    def __init__(self, phrases: Sequence[str]) -> None:
        self._next: list[dict[str, int]] = [{}]
        self._depth = [0]
        self._ends: list[tuple[int, int, bool] | None] = [None]  # of a match: length, whose, led
        self._heads: dict[str, int] = {}
        self._starts: dict[str, int] = {}  # what is shorter than that
        for owner, phrase in enumerate(phrases):
            for one, is_led in disguises(phrase).items():
                self._add(one, owner, is_led)
        self._link()
        self._head = re.compile(any_of(self._heads)).search
        before = set[str]().union(*map(leads, phrases))
        self.leads = frozenset(folded(char) for char in before - _SYMBOLS)
        edges = [edge for phrase in phrases for edge in _edges(phrase)]
        symbols = _ESCAPES | _SYMBOLS if before & _SYMBOLS else _ESCAPES
        self.symbols = symbols.union(*edges)
        self.reach = max([2, *map(len, edges)])  # how many of them may stand before a match

    def _add(self, pattern: str, owner: int, is_led: bool) -> None:
        state = 0
        for n, char in enumerate(pattern, start=1):
            if char not in self._next[state]:
                self._next[state][char] = len(self._next)
                self._next.append({})
                self._depth.append(n)
                self._ends.append(None)
            state = self._next[state][char]
            if n <= _HEAD:
                (self._heads if n == _HEAD else self._starts)[pattern[:n]] = state
        self._ends[state] = self._ends[state] or (len(pattern), owner, is_led)

    def _link(self) -> None:
        """Where to go on when the next letter does not fit: the next shorter beginning."""
        self._back = [0] * len(self._next)
        level = list(self._next[0].values())
        while level:
            below: list[int] = []
            for state in level:
                for char, to in self._next[state].items():
                    self._back[to] = self._step(self._back[state], char)
                    self._ends[to] = self._ends[to] or self._ends[self._back[to]]
                    below.append(to)
            level = below

    def _step(self, state: int, char: str) -> int:
        while char not in self._next[state]:
            if not state:
                return 0
            state = self._back[state]
        return self._next[state][char]

    def depth(self, state: int) -> int:
        """How many letters of something have been seen."""
        return self._depth[state]

    def run(self, text: str, at: int, state: int) -> tuple[int, Found | None]:
        """Go on from `state` with `text[at:]`. Return the state after it, or the first match.

        `text` has at least those letters before `at` that the state stands for.
        """
        size = len(text)
        while at < size:
            depth = self._depth[state]
            if depth < _HEAD:
                begin = at - depth
                if (head := self._head(text, begin)) is None:
                    return self._rest(text[begin if begin > size - _HEAD else 1 - _HEAD :]), None
                at, state = head.end(), self._heads[head.group()]
            else:
                state = self._step(state, text[at])
                at += 1
            if (end := self._ends[state]) is not None:
                return state, Found(end[1], at - end[0], end[2])
        return state, None

    def _rest(self, end: str) -> int:
        """The state after a text in which nothing begins, unless it is in its last letters."""
        for start in range(len(end)):
            if (state := self._starts.get(end[start:])) is not None:
                return state
        return 0


def any_of(words: Iterable[str]) -> str:
    """A regular expression for words of one length, sharing their beginnings."""
    tails: dict[str, list[str]] = {}
    for word in sorted(words):
        tails.setdefault(word[:1], []).append(word[1:])
    if "" in tails:
        return ""
    if all(tail == [""] for tail in tails.values()):
        return f"[{''.join(map(re.escape, tails))}]"
    return "|".join(f"{re.escape(char)}(?:{any_of(rest)})" for char, rest in tails.items())


class Phrases:
    """One text, as it comes, against an automaton.

    `hold` is the place in the text from which on nothing may be shown: it could be the beginning
    of a match. When there is one, `owner` is whose it is.
    """

    def __init__(
        self, automaton: Index, owners: Sequence[int], table: Mapping[int, str | None] = FOLDED
    ) -> None:
        """`table`: which letter each character stands for."""
        self._automaton, self._owners, self._table = automaton, owners, table
        self._state = 0
        self._carry = ""  # the letters that are held
        self._marks: list[int] = []  # where in the text each of them is
        self._last = ""  # the last few characters of the text so far
        self.hold = self.owner = 0

    def feed(self, text: str, base: int) -> bool:
        """Take more of the text, which begins at `base` of the whole. True: there is a match, and
        `hold` is where it begins, with whatever before it has bits of it."""
        automaton, carry = self._automaton, self._carry
        if self._table is HIDDEN and not carry and not has_carriers(text):
            self.hold = base + len(text)
            return False
        letters = text.translate(self._table)
        if letters:
            known = carry + letters
            self._state, found = automaton.run(known, len(carry), self._state)
            if found is not None:
                return self._cut(found, known, text, base, len(letters))
            count = automaton.depth(self._state)
            if known[-count - 1 : len(known) - count] in automaton.leads:
                count += 1
            new = min(count, len(letters))
            self._marks = self._marks[len(carry) - count + new :] + self._places(text, base, new)
            self._carry = known[len(known) - count :]
        end = base + len(text)
        self.hold = self._marks[0] if self._marks else end
        if self.hold == end:
            self.hold -= self._symbols(self._last + text[-automaton.reach :])
        self._last = (self._last + text[-automaton.reach :])[-automaton.reach :]
        return False

    def _cut(self, found: Found, known: str, text: str, base: int, new: int) -> bool:
        marks = self._marks + self._places(text, base, new)
        start = found.start
        if start and found.is_led and known[start - 1] in self._automaton.leads:
            start -= 1
        self.hold, self.owner = marks[start], self._owners[found.owner]
        return True

    def end(self, base: int) -> bool:
        """That was all. What has not become a match by now is none."""
        self.hold = base
        return False

    def _places(self, text: str, base: int, count: int) -> list[int]:
        """Where the last few letters of the folded text stand in the text, and the symbols that
        belong to them."""
        places: list[int] = []
        at = len(text)
        while len(places) < count:
            at -= 1
            reach = self._automaton.reach
            before = text[at - reach : at] if at >= reach else self._last + text[:at]
            place = base + at - self._symbols(before)
            places += [place] * len(self._table[ord(text[at])] or "")
        return places[:count][::-1] if count else places

    def _symbols(self, before: str) -> int:
        """How many of the characters before something may belong to it."""
        symbols, reach = self._automaton.symbols, self._automaton.reach
        if before[-1:] not in symbols:
            return 0
        return sum(1 for _ in takewhile(symbols.__contains__, reversed(before[-reach:])))
