"""Guards over text before anybody sees it: what may be shown now, and where it has to end.

A `Screen` takes one text as it comes and hands out what may be shown of it. What could still turn
out to be the beginning of a match is kept back; after a match nothing is handed out any more.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Final, Literal, Protocol, TypeAlias, cast, get_args

import msgspec

from pullcord.core.text.excerpts import Excerpts
from pullcord.core.text.lookalikes import FOLDED, HIDDEN, PLAIN
from pullcord.core.text.phrases import Automaton, Phrases, folded
from pullcord.core.values import Json, check_text
from pullcord.errors import InvalidInput

PHRASE_MIN_CHARS: Final = 8
WINDOW_MAX_CHARS: Final = 100_000
_BEHIND: Final = 32  # characters already shown that a pattern may look back at
_PIECE: Final = 64 * 1024

OnHit: TypeAlias = Literal["pause", "cancel"]


@dataclass(frozen=True)
class Phrase:
    """A fixed string that nobody is to see: a canary, a code name, a secret.

    It is found whatever its case, with anything but letters and digits in between (blanks, dashes,
    characters of no width), in look-alike characters, in invisible ones that stand for letters,
    backwards, and encoded: base64 (also as a part of something longer) and hex, with its dashes
    or without; percent, escapes, character codes (decimal, hex, octal, padded), rot13.
    """

    text: str = field(repr=False)
    name: str = "phrase"
    on_hit: OnHit = "pause"

    def __post_init__(self) -> None:
        _check(self)
        check_text(self.text, field="text of a guard")
        if len(folded(self.text)) < PHRASE_MIN_CHARS:
            raise InvalidInput(
                f"Guard {self.name!r} cannot watch for this phrase: it has "
                f"{len(folded(self.text))} letters and digits, and with less than "
                f"{PHRASE_MIN_CHARS} it would be found in ordinary text. Nothing was changed. "
                "Take a longer one, or a Pattern."
            )


@dataclass(frozen=True)
class Pattern:
    """A regular expression, over text as it comes and as it looks to a reader (look-alikes made
    plain, accents and characters of no width left out).

    A match has at most `max_chars` characters: so many less one are always kept back. One that
    could go on is taken when it cannot, or when it has that many.
    """

    regex: str
    max_chars: int
    name: str = "pattern"
    on_hit: OnHit = "pause"
    flags: int = 0

    def __post_init__(self) -> None:
        _check(self)
        try:
            is_nothing = re.compile(self.regex, self.flags).match("") is not None
        except re.error as error:
            raise InvalidInput(
                f"Guard {self.name!r} has no regular expression: {error}. Nothing was changed."
            ) from None
        if is_nothing:
            raise InvalidInput(
                f"Guard {self.name!r} matches the empty text, and would find that everywhere. "
                "Nothing was changed. Write a regular expression that needs a character."
            )


@dataclass(frozen=True)
class Check:
    """A function that is asked about every stretch of `max_chars` characters, and more: whether
    there is something in it that nobody is to see. If so, nothing of the stretch is shown.

    Asked about the text as it comes, and as it looks to a reader. If it raises, that is a yes.
    """

    function: Callable[[str], bool]
    max_chars: int
    name: str = "check"
    on_hit: OnHit = "pause"

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class Prompt:
    """A system prompt that nobody is to see. `pullcord.guard.canary` makes one.

    Found is what `Phrase` finds of `canary` and of each sentence in `protect`, and every run of
    twelve words of `planted`, the prompt as the model is given it. Such a run is no match if it
    lies in a passage that is `quotable`, or if it came from outside in the same run: it stands in
    what the run was given, told or answered, or in the result of a tool.
    """

    planted: str = field(repr=False)
    prompt: str = field(repr=False)
    canary: str = field(repr=False)
    protect: tuple[str, ...] = field(default=(), repr=False)
    quotable: tuple[str, ...] = field(default=(), repr=False)
    name: str = "canary"
    on_hit: OnHit = "pause"

    def __post_init__(self) -> None:
        _check(self)
        for text in (self.canary, *self.protect):
            Phrase(text, self.name)
        letters = folded(self.prompt)
        for number, passage in enumerate(self.quotable, start=1):
            check_text(passage, field="quotable passage", empty=False)
            if folded(passage) not in letters:
                raise InvalidInput(
                    f"Guard {self.name!r} cannot let passage {number} of quotable= be said: it is "
                    "not in the prompt, so nothing would change. Nothing was changed. Give it as "
                    "it stands in the prompt."
                )


Guard: TypeAlias = Phrase | Pattern | Check | Prompt


def _check(guard: Guard) -> None:
    check_text(guard.name, field="name of a guard", empty=False)
    if guard.on_hit not in get_args(OnHit):
        raise InvalidInput(
            f"Guard {guard.name!r} cannot {guard.on_hit!r} a run: it is 'pause' or 'cancel'. "
            "Nothing was changed."
        )
    if isinstance(guard, Pattern | Check) and not 1 <= guard.max_chars <= WINDOW_MAX_CHARS:
        raise InvalidInput(
            f"Guard {guard.name!r} cannot look at {guard.max_chars} characters at once: between "
            f"1 and {WINDOW_MAX_CHARS:,} is possible. Nothing was changed."
        )


@dataclass(frozen=True)
class Hit:
    """A guard has found something. `evidence` is what was kept back, from there on."""

    guard: str
    on_hit: OnHit
    evidence: str = field(repr=False)


class Guards:
    """Some guards, made ready once for any number of texts."""

    def __init__(self, guards: Iterable[Guard] = ()) -> None:
        self._all = tuple(guards)
        for guard in self._all:
            if not isinstance(guard, Guard):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInput(
                    f"{guard!r} is not a guard: those are pullcord.guard.Phrase, Pattern, Check "
                    "and what canary() returns. Nothing was changed."
                )
        phrases = [(n, text) for n, guard in enumerate(self._all) for text in _phrases_of(guard)]
        self._phrases = tuple(owner for owner, _ in phrases)
        self._automaton = Automaton([text for _, text in phrases]) if phrases else None
        self._excerpts = {
            n: Excerpts(guard.planted, guard.prompt, quotable=guard.quotable)
            for n, guard in enumerate(self._all)
            if isinstance(guard, Prompt)
        }
        self._heard: Heard | None = None

    def __bool__(self) -> bool:
        return bool(self._all)

    def in_run(self, given: Callable[[], Iterable[str]]) -> "Guards":
        """The same guards over one run. `given`: what came to it from outside before now."""
        mine = copy(self)
        if self._excerpts:
            heard = mine._heard = Heard(given, tuple(self._excerpts.values()))
            mine._excerpts = {n: one.knowing(heard.knows) for n, one in self._excerpts.items()}
        return mine

    def of_tools(self) -> "Guards":
        """The same guards over what comes from tools: there a prompt's words are no recital."""
        mine = copy(self)
        mine._excerpts = {}
        return mine

    def hear(self, result: Json) -> None:
        """A tool has returned this: what an agent repeats of it, it has not from its prompt."""
        if self._heard is not None:
            for text in texts_in(result):
                self._heard.add(text)

    def screen(self) -> "Screen":
        """For one text, as it comes."""
        watches: list[_Watch] = []
        reader = _Reader()
        for table in (FOLDED, HIDDEN):
            if self._automaton is not None:
                watches.append(Phrases(self._automaton, self._phrases, table))
            for owner, excerpts in self._excerpts.items():
                watches.append(Phrases(excerpts, (owner,), table))
        for owner, guard in enumerate(self._all):
            if isinstance(guard, Pattern | Check):
                find = _asking(guard) if isinstance(guard, Check) else _searching(guard)
                watches.append(_Window(owner, guard.max_chars - 1, find, reader))
        return Screen(self._all, watches)

    def hit_in(self, text: str) -> Hit | None:
        """What is found in a whole text; its evidence is all of that."""
        if not self._all:
            return None
        screen = self.screen()
        for start in range(0, len(text), _PIECE):
            screen.feed(text[start : start + _PIECE])
            if screen.hit:
                break
        screen.end()
        return screen.hit and Hit(screen.hit.guard, screen.hit.on_hit, text)

    def hit_in_json(self, value: Json) -> Hit | None:
        """What is found in a value as it is stored, or in one of its texts as they are meant."""
        if not self._all:
            return None
        stored = bytes(value).decode()
        if found := self.hit_in(stored):
            return found
        if "\\" not in stored:
            return None
        found = next(filter(None, map(self.hit_in, texts_in(value))), None)
        return found and Hit(found.guard, found.on_hit, stored)


NO_GUARDS: Final = Guards()


def _phrases_of(guard: Guard) -> tuple[str, ...]:
    match guard:
        case Phrase():
            return (guard.text,)
        case Prompt():
            return (guard.canary, *guard.protect)
        case _:
            return ()


class Heard:
    """The runs of a prompt's words that came to a run from outside. What it was given is looked at
    only when such a run of words is found in what the agent says."""

    def __init__(self, given: Callable[[], Iterable[str]], excerpts: Sequence["Excerpts"]) -> None:
        self._given, self._excerpts = given, excerpts
        self._windows: set[str] = set()

    def add(self, text: str) -> None:
        for excerpts in self._excerpts:
            self._windows |= excerpts.all_in(text)

    def knows(self, window: str) -> bool:
        return window in self._windows or any(window in folded(text) for text in self._given())


def texts_in(value: Json) -> Iterator[str]:
    """The texts in a value, also in JSON that is itself a text in it."""
    yield from _strings(msgspec.json.decode(value))


def _strings(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
            if value[:1] in ("{", "["):
                with suppress(msgspec.DecodeError):
                    yield from _strings(msgspec.json.decode(value))
        case dict():
            for key, inner in cast("dict[str, Any]", value).items():
                yield key
                yield from _strings(inner)
        case list():
            for inner in cast("list[Any]", value):
                yield from _strings(inner)
        case _:
            pass


class _Watch(Protocol):
    """What a screen is made of: something that looks at text as it comes."""

    hold: int  # from this place on nothing may be shown; after a match: where that begins
    owner: int  # whose match it is

    def feed(self, text: str, base: int) -> bool: ...
    def end(self, base: int) -> bool: ...


class Screen:
    """One text. What `feed` and `end` return is, put together, the text; up to a match."""

    def __init__(self, guards: Sequence[Guard], watches: Sequence[_Watch]) -> None:
        self._guards, self._watches = guards, watches
        self._held: list[str] = []  # that is not shown yet
        self._shown = self._taken = 0
        self.hit: Hit | None = None

    def feed(self, text: str) -> str:
        """Take what comes, and return what may be shown now."""
        if self.hit is not None or not text:
            return ""
        if not self._watches:
            return text
        base = self._taken
        upto = self._taken = base + len(text)
        hits: list[_Watch] = []
        for watch in self._watches:
            if watch.feed(text, base):
                hits.append(watch)
            if watch.hold < upto:
                upto = watch.hold
        return self._released(text, upto, hits)

    def end(self) -> str:
        """That was all: return what may be shown of the rest."""
        if self.hit is not None:
            return ""
        hits = [watch for watch in self._watches if watch.end(self._taken)]
        return self._released("", min([self._taken, *(watch.hold for watch in hits)]), hits)

    def _released(self, text: str, upto: int, hits: Sequence[_Watch]) -> str:
        if text:
            self._held.append(text)
        shown = ""
        if upto > self._shown:
            held = "".join(self._held)
            cut = upto - self._shown
            shown, rest = held[:cut], held[cut:]
            self._held = [rest] if rest else []
            self._shown = upto
        if hits:
            first = min(hits, key=lambda watch: watch.hold)
            guard = self._guards[first.owner]
            self.hit = Hit(guard.name, guard.on_hit, "".join(self._held))
            self._held = []
        return shown


_Find: TypeAlias = Callable[[str, int, bool], int | None]
"""Where in a text, not before a place, something is found; with what may still go on, or not."""


def _asking(guard: Check) -> _Find:
    def find(text: str, begin: int, is_end: bool) -> int | None:
        try:
            is_found = bool(text) and bool(guard.function(text[begin:]))
        except Exception:  # then nobody knows what is in it
            is_found = True
        return begin if is_found else None

    return find


def _searching(guard: Pattern) -> _Find:
    search, most = re.compile(guard.regex, guard.flags).search, guard.max_chars

    def find(text: str, begin: int, is_end: bool) -> int | None:
        if (found := search(text, begin)) is None:
            return None
        start, end = found.span()
        return start if is_end or end < len(text) or end - start >= most else None

    return find


class _Reader:
    """A reader's eyes, shared by all windows on one text: each piece is looked at once."""

    def __init__(self) -> None:
        self._text = self._seen = ""

    def sees(self, text: str) -> str:
        if text is not self._text:
            self._text, self._seen = text, text.translate(PLAIN)
        return self._seen


class _Window:
    """The end of the text so far, as long as a match may be, as it came and as it looks."""

    def __init__(self, owner: int, keep: int, find: _Find, reader: _Reader) -> None:
        self.owner, self._keep, self._find, self._reader = owner, keep, find, reader
        self._came = ""  # what is held, and a little before it, to look back at
        self._looks: tuple[str, list[int]] | None = None  # and where what is held came; ASCII: None
        self.hold = 0

    def feed(self, text: str, base: int) -> bool:
        return self._look(text, base, is_end=False)

    def end(self, base: int) -> bool:
        return self._look("", base, is_end=True)

    def _look(self, text: str, base: int, *, is_end: bool) -> bool:
        known, keep = len(self._came), self._keep
        came = self._came + text
        size, first = len(came), base - known
        start = self._find(came, known - keep if known > keep else 0, is_end)
        hold = first + (size - keep if size > keep else 0)
        found = [] if start is None else [first + start]
        if self._looks is not None or not text.isascii():
            looks, places = self._looks or (self._came, list(range(max(first, base - keep), base)))
            found += self._seen(looks, places, text, base, is_end)
            if self._looks and self._looks[1]:
                hold = min(hold, self._looks[1][0])
        self._came = came[-keep - _BEHIND :]
        self.hold = min(found, default=hold)
        return bool(found)

    def _seen(self, looks: str, places: list[int], text: str, base: int, is_end: bool) -> list[int]:
        """The same as it looks to a reader."""
        new = self._reader.sees(text)
        begin = len(looks) - len(places)
        looks += new
        at = self._find(looks, begin, is_end)
        if at is not None:
            places += [*_places(text, base, len(new)), base + len(text)]
            return [places[at - begin]]
        fresh = min(self._keep, len(new))
        kept = min(self._keep - fresh, len(places))
        places = places[len(places) - kept :] + _places(text, base, fresh)
        self._looks = looks[-self._keep - _BEHIND :], places
        return []


def _places(text: str, base: int, count: int) -> list[int]:
    """Where the last few characters that a reader sees stand in the text."""
    if text.isascii():
        return list(range(base + len(text) - count, base + len(text)))
    places: list[int] = []
    at = len(text)
    while len(places) < count:
        at -= 1
        places += [base + at] * len(PLAIN[ord(text[at])] or "")
    return places[:count][::-1]
