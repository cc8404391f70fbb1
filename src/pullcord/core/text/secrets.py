"""Registered secrets: what is written has a reference in their place, and only a door resolves it.

`{{secret:stripe_key}}` stands for the value; `{{secret:stripe_key|hex}}` for a form of it in which
it was found. So nothing is lost: whoever has the secrets can put the text together again.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, TypeAlias, TypedDict, cast

import msgspec

from pullcord.core.text.map_texts import changed_texts
from pullcord.core.text.redaction import PATTERNS, Redactor
from pullcord.core.text.secret_forms import forms_of
from pullcord.core.values import Json, check_id
from pullcord.errors import InvalidInput, SecretUnknown, Unstorable

VALUE_MIN_CHARS: Final = 8
START_CHARS: Final = 4
_REFERENCE: Final = re.compile(
    r"\{\{secret:([0-9A-Za-z][0-9A-Za-z_-]{0,63})(?:\|([a-z0-9-]{1,32}))?\}\}"
)
_NUMBER: Final = "number"
_encode = msgspec.json.Encoder(order="deterministic").encode
_ODD: Final = (b"\\u", b"\\/")  # escapes that our own encoder has no use for


Value: TypeAlias = str | Callable[[], str]


class Kept(TypedDict):
    """A secret that only some tools may have, by their names (or the names of steps)."""

    value: Value
    tools: Iterable[str]


Registered: TypeAlias = Mapping[str, Value | Kept]


class Secrets:
    """What may not be written. May be relied upon: in what `seal` returns no form of a value is
    left, and `reveal` makes the same text out of it again. Without any, it does nothing.

    Raises:
        InvalidInput: a name is not an id, or a value is too short to be told from other text.
    """

    def __init__(
        self, registered: Registered | None = None, *, redact: bool | Iterable[str] = False
    ) -> None:
        self._texts: dict[tuple[str, str], str] = {}  # name, form → what stands there
        self._names: dict[str, tuple[str, str]] = {}  # what stands there → name, form
        self._tools: dict[str, frozenset[str]] = {}
        for name, given in (registered or {}).items():
            kept = cast("Kept", given) if isinstance(given, dict) else Kept(value=given, tools=())
            if set(kept) != {"value", "tools"}:
                raise _refused(name, "it is not given as a value and the tools that may have it")
            self._register(name, kept["value"], frozenset(kept["tools"]))
        for text in self._names:
            if any(text in reference(name, form) for name, form in self._texts):
                name = self._names[text][0]
                raise _refused(name, "it is a part of what would stand in its place")
        found = sorted(self._names, key=len, reverse=True)
        # Their ends will do, and as text, a character per byte: that is found much faster.
        ends = {_encode(text)[1:-1][-VALUE_MIN_CHARS:] for text in found}
        self._needles = tuple(end.decode("latin-1") for end in ends)
        self.starts: dict[str, list[str]] = {}  # the first characters, 1 to 4 → what begins so
        for text in found:
            for chars in range(1, START_CHARS + 1):
                self.starts.setdefault(text[:chars], []).append(text)
        self.longest = len(found[0]) if found else 0
        self._shortest = len(found[-1]) if found else 0
        names = PATTERNS if redact is True else redact or ()
        self.redactor = Redactor(names) if names else None

    def __repr__(self) -> str:
        return f"<secrets {', '.join(self._tools)}>"

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self._names) or self.redactor is not None

    def _register(self, name: str, given: Value, tools: frozenset[str]) -> None:
        check_id(name, kind="secret")
        value = given() if callable(given) else given
        if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise _refused(name, "its value is not text")
        if len(value.strip()) < VALUE_MIN_CHARS:
            why = f"its value has fewer than {VALUE_MIN_CHARS} characters, and would be found "
            raise _refused(name, f"{why}in text that is not secret")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refused(name, "its value has half of a surrogate pair") from None
        self._tools[name] = tools
        for form, text in forms_of(value).items():
            if len(text) >= VALUE_MIN_CHARS:
                self._texts[name, form] = text
                self._names.setdefault(text, (name, form))

    # --- text ---

    def seal(self, text: str) -> str:
        """Return the text with a reference for everything registered in it."""
        done, sealed = 0, list[str]()
        for start, end, instead in self.spans(text):
            sealed += text[done:start], instead
            done = end
        return "".join((*sealed, text[done:])) if sealed else text

    def spans(self, text: str) -> Iterator[tuple[int, int, str]]:
        """What `seal` replaces: from where to where, and by what. The first one that begins counts,
        and of those that begin at one place the longest."""
        if not self._names or len(text) < self._shortest:
            return
        finds = [(at, -len(said), said) for said in self._names for at in _places(said, text)]
        done = 0
        for at, chars, said in sorted(finds):
            if at >= done:
                done = at - chars
                yield at, done, reference(*self._names[said])

    def screen(self, text: str) -> str:
        """`seal`, and hide what looks like a credential, if that is wanted."""
        text = self.seal(text)
        return self.redactor.redact(text) if self.redactor else text

    def are_in(self, text: str) -> bool:
        """Whether a registered value stands in a text as it is, or in one of its forms."""
        return any(known in text for known in self._names)

    def reveal(self, text: str, *, tool: str = "") -> str:
        """Return the text with what its references stand for.

        Raises:
            SecretUnknown: no such secret was registered, or this tool may not have it.
        """
        if "{{secret:" not in text:
            return text
        return _REFERENCE.sub(lambda found: self._behind(found, tool), text)

    def _behind(self, found: re.Match[str], tool: str) -> str:
        name, form = found[1], found[2] or ""
        allowed = self._tools.get(name)
        if allowed is None:
            raise SecretUnknown(name, tool=tool, why="this runtime was not given it")
        if allowed and tool not in allowed:
            raise SecretUnknown(name, tool=tool, why="it is registered for other tools only")
        return self._texts.get((name, "" if form == _NUMBER else form), found[0])

    # --- stored JSON, and Python values ---

    def may_be_in(self, encoded: bytes) -> bool:
        """Whether JSON may hold something to be sealed. No is certain."""
        if self.redactor is not None:
            return True
        text = encoded.decode("latin-1")
        for needle in self._needles:  # (a loop: this is asked about every event)
            if needle in text:
                return True
        return bool(self._needles) and any(odd in encoded for odd in _ODD)

    def seal_json(self, value: Json, *, screen: bool = False) -> Json:
        """The same for a value as it is stored: its texts, its keys, and numbers that are secret.

        Raises:
            Unstorable: there is something in it, and it cannot be written anew.
        """
        encoded = bytes(value)
        if not self or not self.may_be_in(encoded):
            return value
        plain = msgspec.json.decode(encoded)
        change = self.screen if screen else self.seal
        sealed = changed_texts(plain, change, lambda number: self._number(number, change))
        if sealed is plain:
            return value
        try:
            return msgspec.Raw(_encode(sealed))
        except OverflowError:
            why = "it holds a secret, and an integer of more than 64 bits"
            raise Unstorable("$", why=why) from None

    def seal_value(self, value: Any, *, screen: bool = False) -> Any:
        """The same for a Python value, as far as it is made of text, lists, mappings and records of
        these."""
        if not self:
            return value
        change = self.screen if screen else self.seal
        return changed_texts(value, change, lambda number: self._number(number, change))

    def reveal_value(self, value: Any, *, tool: str = "") -> Any:
        """A Python value as a door hands it on: what its references stand for in their place.

        Raises:
            SecretUnknown: no such secret was registered, or this tool may not have it.
        """

        def change(text: str) -> Any:
            found = _REFERENCE.fullmatch(text)
            said = self.reveal(text, tool=tool)
            return msgspec.json.decode(said) if found and found[2] == _NUMBER else said

        return changed_texts(value, change, lambda number: number)

    def _number(self, number: Any, change: Callable[[str], str]) -> Any:
        said = str(number)
        sealed = self.seal(said)
        if sealed == said:
            return number
        whole = self._names.get(said)
        return reference(whole[0], _NUMBER) if whole else change(said)


def names_a_secret(value: Json) -> bool:
    """Whether there may be a reference in a stored value. No is certain of what we have stored."""
    return b"{{secret:" in bytes(value)


def reference(name: str, form: str = "") -> str:
    """What stands in place of a secret."""
    return f"{{{{secret:{name}|{form}}}}}" if form else f"{{{{secret:{name}}}}}"


def _places(said: str, text: str) -> Iterator[int]:
    """Where it stands, overlapping itself too."""
    at = text.find(said)
    while at >= 0:
        yield at
        at = text.find(said, at + 1)


def _refused(name: str, why: str) -> InvalidInput:
    return InvalidInput(f"Secret {name!r} cannot be registered: {why}. Nothing was opened.")
