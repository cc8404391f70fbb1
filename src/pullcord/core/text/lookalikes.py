"""What a character looks like to a reader: the plain one behind accents, costumes and disguises.

All tables work on one character at a time, whatever stands around it, so that a place in the
result can always be led back to a place in the text; and all are made for `str.translate`.
"""

import re
import unicodedata
from typing import Final

_LETTERS: Final = {  # each with what is drawn like it, in other alphabets and in none
    "a": "аɑαᴀⲁӑәⱥ",
    "b": "ЬьвɓʙᏏβƀ",
    "c": "сϲᴄⲥᏟꮯƈȼ",
    "d": "ԁɖɗᴅđðꓒᏧ",
    "e": "еєεɛᴇҽɇⲉ",
    "f": "ƒғꜰϝẝ",
    "g": "ɡցɢǥᏻԍ",
    "h": "һհʜнħᏂⲏ",
    "i": "іıɩιɪᎥɨꙇ",
    "j": "јϳȷᴊյɉ",
    "k": "кκᴋƙⲕқ",
    "l": "ӏʟłɫɬɭⅼ",
    "m": "мᴍɱⲙм",
    "n": "ոпηɴŋɲɳռ",
    "o": "оοօᴏøɵⲟσ",
    "p": "рρᴘƥⲣϱ",
    "q": "ԛզɋꞯգ",
    "r": "гʀɼɽɾꭇⲅ",
    "s": "ѕꜱʂƽꮪ",
    "t": "тτᴛŧƭʈⲧ",
    "u": "սυᴜʉʋц",
    "v": "νѵᴠᏙ",
    "w": "ԝѡᴡաω",
    "x": "хχᕁ×ⲭҳ",
    "y": "уүʏγƴყɏ",
    "z": "ᴢʐʑƶζⲍ",
    "A": "АΑᎪꓮᗅ",
    "B": "ВΒᏴꓐᗷ",
    "C": "СϹᏟꓚⅭ",
    "D": "ᎠꓓᗞĐÐ",
    "E": "ЕΕᎬꓰⴹ",
    "F": "ҒϜꓝᖴ",
    "G": "ԌᏀꓖᏳ",
    "H": "НΗᎻꓧᕼ",
    "I": "ІΙӀᏆꓲ",
    "J": "ЈᎫꓙᒍ",
    "K": "КΚᏦꓗ",
    "L": "ԼᏞꓡᒪŁ",
    "M": "МΜᎷꓟϺ",
    "N": "ΝꓠՆ",
    "O": "ОΟՕꓳØ",
    "P": "РΡᏢꓑᑭ",
    "Q": "Ԛⵕ",
    "R": "ᎡᏒꓣᖇ",
    "S": "ЅՏᏕꓢᏚ",
    "T": "ТΤᎢꓔŦ",
    "U": "ՍꓴᑌՄ",
    "V": "ѴᏙꓦᐯ",
    "W": "ԜᎳꓪᏔ",
    "X": "ХΧꓫ᙭",
    "Y": "УΥҮꓬᎩ",
    "Z": "ΖᏃꓜ",
    "3": "ЗзƷӠ",
    "6": "бᏮ",
    "8": "Ȣȣ",
    "ss": "ßẞ",
    "ae": "æÆ",
    "oe": "œŒ",
}
_RANGES: Final = (0x1F130, 0x1F150, 0x1F170, 0x1F1E6)  # letters in boxes, balls and flags
_FILLERS: Final = frozenset("\u115f\u1160\u3164\uffa0\u2800")  # letters of no width, or no ink
_UNSEEN: Final = frozenset({"Mn", "Me", "Cf"})  # accents and what has no width
_ALIKE: Final = str.maketrans({"i": "l", "1": "l", "0": "o"})
_CARRIERS: Final = (  # from, up to, and what the first of them stands for
    (0xE0000, 0xE0080, 0),
    (0xFE00, 0xFE10, 0),
    (0xE0100, 0xE01F0, 16),
)
_KEPT: Final = 2**16

_LIKE: Final = {one: letter for letter, ones in _LETTERS.items() for one in ones}
_LIKE.update({chr(first + n): chr(65 + n) for first in _RANGES for n in range(26)})


class _PlainForms(dict[int, str | None]):
    """As a reader sees it, in the same case; None: not at all. ASCII is what it is."""

    def __missing__(self, code: int) -> str | None:
        if len(self) > _KEPT:
            self.clear()
        char = chr(code)
        found = char if code < 128 else "".join(map(_plain, unicodedata.normalize("NFKD", char)))
        self[code] = found or None
        return self[code]


class _Folded(dict[int, str | None]):
    """Letters and digits only, in one case, and those that look alike as one."""

    def __missing__(self, code: int) -> str | None:
        if len(self) > _KEPT:
            self.clear()
        seen = (PLAIN[code] or "").casefold()
        seen = seen.translate(PLAIN).casefold()  # it may look like something only in this case
        self[code] = "".join(filter(str.isalnum, seen)).translate(_ALIKE) or None
        return self[code]


class _Hidden(dict[int, str | None]):
    """The letters that invisible characters stand for: tags, and variation selectors as bytes."""

    def __missing__(self, code: int) -> str | None:
        if len(self) > _KEPT:
            self.clear()
        meant = next(
            (code - low + first for low, high, first in _CARRIERS if low <= code < high), 0
        )
        self[code] = FOLDED[meant] if 0 < meant < 128 else None
        return self[code]


def _plain(char: str) -> str:
    if char in _LIKE:
        return _LIKE[char]
    if char in _FILLERS or unicodedata.category(char) in _UNSEEN:
        return ""
    digit = unicodedata.decimal(char, None)
    return char if digit is None else str(digit)


PLAIN: Final = _PlainForms()
FOLDED: Final = _Folded()
HIDDEN: Final = _Hidden()
_carriers: Final = re.compile(
    f"[{''.join(f'{chr(low)}-{chr(high - 1)}' for low, high, _ in _CARRIERS)}]"
).search


def has_carriers(text: str) -> bool:
    """Whether there are invisible characters in a text that could stand for others."""
    return not text.isascii() and _carriers(text) is not None
