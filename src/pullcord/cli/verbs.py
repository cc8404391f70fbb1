"""The controls on the command line: the arguments of each, and the command that these make.

Both follow from the core's commands. What nobody says as its field is called is in a table here.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import FieldInfo, fields

from pullcord.cli.arguments import value_of, whoami
from pullcord.core.commands import COMMANDS, SIGNED, Command
from pullcord.core.values import dump
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.cli.render import run_text
    from pullcord.core import limits
else:
    limits = lazy_import("pullcord.core.limits")
    run_text = lazy_import("pullcord.cli.render.run_text")

_SAID: Final[Mapping[str, tuple[str, dict[str, Any]]]] = {
    "undo": ("--no-undo", {"help": "leave what was done as it is"}),
    "keep_partial": ("--discard-partial", {"help": "keep partial text out of the thread"}),
    "back_to": ("--back-to", {"metavar": "STEP"}),
    "step": ("step", {"nargs": "?"}),
    "value": ("value", {"nargs": None}),
    "caps": ("caps", {"metavar": "CAP=VALUE", "nargs": "+"}),
}
_SAYS_WITHOUT: Final = {("rename", "title"): "{run} has no title any more."}
_LOOKED_UP: Final = ("call",)  # who allows a call means the one that is shown
_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "value": lambda said: dump(value_of(said)),
    "args": lambda said: dump(value_of(said)),
    "caps": lambda said: limits.parsed(said),
}
_IDS: Final = ("run", "question", "item")


def arguments(verb: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what is said in a control, each as `add_argument` takes it."""
    for field in fields(COMMANDS[verb]):
        if field.name not in SIGNED and field.name not in _LOOKED_UP:
            yield _argument(field)


def _argument(field: FieldInfo) -> tuple[str, dict[str, Any]]:
    """A word if it has to be said, or is all that could be; else an option."""
    is_word = field.required or field.default is None
    called = field.name if is_word else f"--{field.name.replace('_', '-')}"
    how: dict[str, Any] = {}
    name, more = _SAID.get(field.name, (called, how))
    for meta in getattr(field.type, "__metadata__", ()):
        how |= {"help": meta.description} if meta.description else {}
    if name.startswith("--"):
        how["dest"] = field.name
    else:
        how |= {"metavar": name.upper()} | ({} if field.required else {"nargs": "?"})
    if isinstance(field.default, bool):
        how["action"] = "store_false" if field.default else "store_true"
    elif not field.required:
        how["default"] = field.default
    return name, how | more


def command_of(asked: Any) -> Command:
    """Return the command that somebody has said.

    Raises:
        InvalidInput: a value is none.
    """
    kind = COMMANDS[asked.verb]
    said: dict[str, Any] = {
        name: _READ[name](getattr(asked, name)) if name in _READ else getattr(asked, name)
        for name in kind.__struct_fields__
        if name not in SIGNED
    }
    return kind(by=whoami(asked.by), reason=asked.reason, key=asked.key, **said)


def said_of(asked: Any, *, already: bool = False) -> str:
    """Return what a control says of itself when it holds, or held before."""
    kind = COMMANDS[asked.verb]
    said = kind.already if already else kind.done
    for (verb, field), without in _SAYS_WITHOUT.items():
        if verb == asked.verb and not already and not getattr(asked, field):
            said = without
    return said.format_map(_Shown(asked))


class _Shown(dict[str, str]):
    """What was asked, fit for a line of a terminal."""

    def __init__(self, asked: Any) -> None:
        super().__init__()
        self._asked = asked

    def __missing__(self, name: str) -> str:
        value = getattr(self._asked, name)
        return value if name in _IDS else run_text.line(value)
