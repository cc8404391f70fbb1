"""Credentials that nobody has registered, found by their looks. Best effort: what is found is gone
for good, and what looks like nothing in particular is not found. `bench/secrets.py` measures both.
"""

import re
from collections.abc import Iterable
from typing import Final

from pullcord.errors import InvalidInput

_WORD: Final = r"(?<![0-9A-Za-z_])"  # nothing of a word before it
_END: Final = r"(?![0-9A-Za-z_])"
_NAMED: Final = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret(?:[_-]?(?:access[_-]?)?key)?|client[_-]?secret"
    r"|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|refresh[_-]?token"
    r"|private[_-]?key|encryption[_-]?key|token)"
)

PATTERNS: Final[dict[str, str]] = {
    # a name that people understand, and what such a thing looks like; a group is what is hidden
    "private-key": r"-----BEGIN [A-Z ]*PRIVATE KEY(?: BLOCK)?-----[\s\S]{0,16000}?"
    r"(?:-----END [A-Z ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    "aws-key": rf"{_WORD}(?:AKIA|ASIA|AGPA|AIDA|AROA|ANPA)[0-9A-Z]{{16}}{_END}",
    "google-key": rf"{_WORD}AIza[0-9A-Za-z_-]{{35}}(?![0-9A-Za-z_-])",
    "google-oauth": rf"{_WORD}(?:ya29\.[0-9A-Za-z_-]{{20,}}|GOCSPX-[0-9A-Za-z_-]{{20,}})",
    "azure-key": r"(?i:AccountKey|SharedAccessKey|sig)=([0-9A-Za-z+/%]{40,}={0,2})",
    "github-token": rf"{_WORD}(?:gh[pousr]_[0-9A-Za-z]{{36,}}|github_pat_[0-9A-Za-z_]{{22,}})",
    "gitlab-token": rf"{_WORD}gl(?:pat|dt|rt|cbt|ptt|soat|ft|imt|agent)-[0-9A-Za-z_-]{{20,}}",
    "slack-token": rf"{_WORD}xox[abeoprs]-(?:[0-9A-Za-z]+-)*[0-9A-Za-z]{{10,}}"
    rf"|{_WORD}xapp-\d-[0-9A-Z]+-\d+-[0-9a-f]{{16,}}",
    "slack-webhook": r"https://hooks\.slack\.com/(?:services|workflows)/([0-9A-Za-z/_-]{20,})",
    "stripe-key": rf"{_WORD}(?:[sr]k_(?:live|test)|whsec)_[0-9A-Za-z]{{16,}}",
    "model-key": rf"{_WORD}sk-(?:(?:ant|proj|svcacct|admin|or)-)?[0-9A-Za-z_-]{{20,}}"
    rf"|{_WORD}(?:gsk_|xai-|pplx-|r8_|hf_)[0-9A-Za-z]{{30,}}",
    "package-token": rf"{_WORD}(?:npm_[0-9A-Za-z]{{36}}|pypi-[0-9A-Za-z_-]{{50,}}"
    rf"|dckr_pat_[0-9A-Za-z_-]{{20,}})",
    "mail-key": rf"{_WORD}(?:SG\.[0-9A-Za-z_-]{{16,}}\.[0-9A-Za-z_-]{{16,}}"
    rf"|key-[0-9a-f]{{32}}{_END}|xkeysib-[0-9a-f]{{32,}}-[0-9A-Za-z]{{8,}})",
    "phone-key": rf"{_WORD}(?:AC|SK)[0-9a-f]{{32}}{_END}",
    "platform-token": rf"{_WORD}(?:do[opr]_v1_[0-9a-f]{{64}}|hv[sbr]\.[0-9A-Za-z_-]{{20,}}"
    rf"|dapi[0-9a-f]{{32}}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{{32}}|NRAK-[0-9A-Z]{{27}}"
    rf"|sntrys_[0-9A-Za-z_=+/-]{{30,}}|lin_api_[0-9A-Za-z]{{32,}}|ATATT3[0-9A-Za-z_=-]{{40,}})",
    "jwt": rf"{_WORD}eyJ[0-9A-Za-z_-]{{8,}}\.eyJ[0-9A-Za-z_-]{{8,}}\.[0-9A-Za-z_-]{{8,}}",
    "authorization": r"(?i:\b(?:authorization\s*[:=]\s*[\"']?\s*(?:basic|bearer|token)|bearer)\s+)"
    r"((?!\[redacted)(?=[^\s\"',;]*[0-9+/=._~-])[0-9A-Za-z+/=._~-]{16,})",
    "cookie": r"(?i:\bset-cookie|\bcookie)\s*:\s*[^\s=;]{1,64}=((?!\[redacted)[^\s;,\"']{16,})",
    "connection-string": r"(?i:\b[a-z][a-z0-9+.-]{1,20}://)[^\s/:@\"']{0,64}:"
    r"((?!\[redacted)[^\s/@\"']{3,128})@",
    "password": rf"(?i:(?<![0-9A-Za-z])(?:[0-9a-z]+[_.-])*{_NAMED})[\"']?\s*(?:=>|[:=])\s*"
    r"(?:[\"']((?!\[redacted|\{\{secret:)[^\"'\n]{6,256})[\"']"
    r"|((?!\[redacted|\{\{secret:)(?=[^\s,;&)\]}]*[0-9!@#$%^*+/?~])[^\s\"',;&<>()\[\]{}]{6,256}))",
}
"""The looks that are known, in the order in which they are tried."""

_NEAR: Final = re.compile(r"(?:\S+\s+){0,3}\S*\Z")
_KEY_BEGINS: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY")
_HELD_CHARS: Final = 512
_KEY_CHARS: Final = 16_000


class Redactor:
    """Hides what has one of these looks: `[redacted NAME]` stands where it was."""

    def __init__(self, names: Iterable[str] = PATTERNS) -> None:
        self._looks: list[tuple[str, re.Pattern[str]]] = []
        for name in names:
            if name not in PATTERNS:
                known = ", ".join(PATTERNS)
                raise InvalidInput(
                    f"Cannot redact {name!r}: known are {known}. Nothing was opened."
                )
            self._looks.append((name, re.compile(PATTERNS[name])))

    def redact(self, text: str) -> str:
        """Return the text without what was found in it. What is hidden already stays as it is."""
        for name, look in self._looks:
            text = look.sub(lambda found, name=name: _hidden(found, name), text)
        return text

    def settled(self, text: str) -> int:
        """How many characters of a text that goes on can no longer be part of a find: not its last
        three words, nor a private key that has not ended."""
        near = _NEAR.search(text, max(0, len(text) - _HELD_CHARS))
        end = near.start() if near else len(text)
        keys = [key.start() for key in _KEY_BEGINS.finditer(text, max(0, len(text) - _KEY_CHARS))]
        if keys and "-----END" not in text[keys[-1] :]:
            end = min(end, keys[-1])
        finds = [found.span() for _, look in self._looks for found in look.finditer(text)]
        while crossed := [start for start, over in finds if start < end < over]:
            end = min(crossed)
        return end


def _hidden(found: re.Match[str], name: str) -> str:
    part = next((n for n in range(1, (found.re.groups or 0) + 1) if found[n] is not None), 0)
    start, end = found.span(part)
    whole, offset = found[0], found.start()
    return f"{whole[: start - offset]}[redacted {name}]{whole[end - offset :]}"
