"""Sealing a text that comes in pieces: nothing is let through that may be the start of a secret."""

from pullcord.core.text.secrets import START_CHARS, Secrets


class Sealer:
    """What comes in as `feed` goes out sealed, as early as it can be known to be.

    May be relied upon: all that came out, put together, is `seal` of all that went in, wherever it
    was cut; and nothing of a registered secret is in it at any time before that. What was held
    back is lost only to whoever never calls `end`.
    """

    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._held = ""
        self._screened = ""  # sealed, and not yet looked at for credentials

    def feed(self, text: str) -> str:
        """Take a piece, and return what can be shown by now."""
        if not self._secrets:
            return text
        return self._looked_at(self._sealed(self._held + text))

    def end(self) -> str:
        """That was all: return what was held back."""
        rest, self._held = self._secrets.seal(self._held), ""
        rest, self._screened = self._screened + rest, ""
        redactor = self._secrets.redactor
        return redactor.redact(rest) if redactor else rest

    def _sealed(self, text: str) -> str:
        done, sealed = 0, list[str]()
        open_at = self._may_begin(text, 0)
        for start, end, instead in self._secrets.spans(text):
            if start >= open_at:
                break  # a longer one may begin there
            sealed += text[done:start], instead
            done = end
            if open_at < done:
                open_at = self._may_begin(text, done)
        sealed.append(text[done:open_at])
        self._held = text[open_at:]
        return "".join(sealed)

    def _may_begin(self, text: str, start: int) -> int:
        """From where on the end of the text is the beginning of something secret, and no more."""
        starts, size = self._secrets.starts, len(text)
        for at in range(max(start, size - self._secrets.longest + 1), size):
            if begun := starts.get(text[at : at + START_CHARS]):
                tail = text[at:]
                if any(len(whole) > len(tail) and whole.startswith(tail) for whole in begun):
                    return at
        return size

    def _looked_at(self, text: str) -> str:
        redactor = self._secrets.redactor
        if redactor is None:
            return text
        text = self._screened + text
        end = redactor.settled(text)
        self._screened = text[end:]
        return redactor.redact(text[:end])
