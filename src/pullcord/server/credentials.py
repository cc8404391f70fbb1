"""Who gets in when the server stands alone: a one-time launch link, narrow links, and tokens.

Every credential is 256 random bits, shown once and kept only as its SHA-256 in a file beside the
store (mode 0600): who reads the file can let nobody in. They end by themselves and can be revoked.
"""

import errno
import fcntl
import hashlib
import os
import secrets
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from starlette.requests import Request

from pullcord.errors import InvalidInput, StorageFailed
from pullcord.regular_file import open_regular, whole
from pullcord.server.rights import OF_LINKS, Grant, Right

Kind: TypeAlias = Literal["session", "link", "token"]
KEY: Final = "x-pullcord-key"  # the header that a page sends its half of a session in
SESSION_S: Final = 30 * 24 * 3600
_LAUNCH_S: Final = 600
_CODE_MAX: Final = 100
_SESSIONS_OF_A_LINK: Final = 50
_FILE_MAX_BYTES: Final = 64 * 1024 * 1024
_LOCK_S: Final = 5.0
_LOOK_S: Final = 0.002  # how often it is looked whether the lock is free


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A credential as it is kept: everything but itself."""

    id: str
    digest: str
    kind: Kind
    name: str
    right: Right
    run: str | None = None
    created_at_ms: int = 0
    expires_at_ms: int = 0
    revoked: bool = False
    link: str = ""  # of a session: the link that it came by, and ends with
    key: str = ""  # of a session: the digest of its other half, which no cookie carries

    def grant(self) -> Grant:
        """No link is wider than links are, whatever it was called when it was made."""
        how = "link" if self.link else self.kind
        is_too_wide = how == "link" and self.right not in OF_LINKS
        right = OF_LINKS[-1] if is_too_wide else self.right
        return Grant(by=self.name, right=right, run=self.run, how=how)


class Session(NamedTuple):
    """What a browser is given: one half as a cookie, the other for its page to keep and send."""

    cookie: str
    key: str


class Keeper:
    """The credentials of one store. Also what `app(authorize=)` asks."""

    def __init__(self, path: str | os.PathLike[str], *, name: str, cookie: str) -> None:
        """`name`: who the launch link makes one; `cookie`: what a browser's session is called."""
        self.cookie = cookie
        self._path = Path(path)
        self._name = name
        self._launches: dict[str, float] = {}  # digest → until when, by the monotonic clock
        self._seen: tuple[int, int] = (0, 0)
        self._kept: dict[str, Kept] = {}

    # --- let somebody in ---

    def __call__(self, request: Request) -> Grant | None:
        """Who this is, by a bearer token or by a session: its cookie and its key."""
        said = request.headers.getlist("authorization")
        if said:
            scheme, _, code = said[0].partition(" ")
            is_one = len(said) == 1 and scheme.lower() == "bearer"
            return self._known(code.strip(), ("token",)) if is_one else None
        kept = self.find(request.cookies.get(self.cookie, ""), ("session",))
        return kept.grant() if kept and _has_key(kept, request) else None

    def _known(self, code: str, kinds: tuple[Kind, ...]) -> Grant | None:
        kept = self.find(code, kinds)
        return kept.grant() if kept else None

    def find(self, code: str, kinds: tuple[Kind, ...]) -> Kept | None:
        """The credential that this is, if it still counts. Looked up by digest: how long it takes
        tells nothing of the others."""
        if not code or len(code) > _CODE_MAX:
            return None
        self._read()
        kept = self._kept.get(_digest(code))
        if kept is None or kept.kind not in kinds or not self._counts(kept):
            return None
        return kept

    def _counts(self, kept: Kept) -> bool:
        is_over = kept.revoked or kept.expires_at_ms <= _now_ms()
        by = next((k for k in self._kept.values() if k.id == kept.link), None)
        return not is_over and (not kept.link or (by is not None and self._counts(by)))

    # --- give and take ---

    def launch(self) -> str:
        """Make a code that opens one session with every right, once, within ten minutes."""
        code = _code()
        self._launches[_digest(code)] = time.monotonic() + _LAUNCH_S
        return code

    def session(self, code: str) -> Session | None:
        """Exchange a launch code or a link's for a session. None: it is none, or used up."""
        key = _code()
        until = self._launches.pop(_digest(code), 0.0)
        if until > time.monotonic():
            made = self.give(
                kind="session", name=self._name, right="admin", lasts_s=SESSION_S, key=key
            )
            return Session(made[1], key)
        if (link := self.find(code, ("link",))) is None:
            return None
        lasts_s = (link.expires_at_ms - _now_ms()) / 1000
        made = self.give(
            kind="session",
            name=link.name,
            right=link.right,
            run=link.run,
            lasts_s=lasts_s,
            link=link.id,
            key=key,
        )
        return Session(made[1], key)

    def give(
        self,
        *,
        kind: Kind,
        name: str,
        right: Right,
        lasts_s: float,
        run: str | None = None,
        link: str = "",
        key: str = "",
    ) -> tuple[Kept, str]:
        """Make a credential. The second value is it, and is told to nobody again."""
        code = _code()
        now = _now_ms()
        kept = Kept(
            id=secrets.token_hex(4),
            digest=_digest(code),
            kind=kind,
            name=name,
            right=right,
            run=run,
            created_at_ms=now,
            expires_at_ms=now + round(lasts_s * 1000),
            link=link,
            key=_digest(key) if key else "",
        )
        with self._changing():
            if link:
                self._forget_old_sessions(link)
            self._kept[kept.digest] = kept
        return kept, code

    def _forget_old_sessions(self, link: str) -> None:
        """However often a link is followed, what is kept of that is bounded."""
        mine = [kept for kept in self._kept.values() if kept.link == link]
        for kept in sorted(mine, key=lambda kept: -kept.created_at_ms)[_SESSIONS_OF_A_LINK - 1 :]:
            del self._kept[kept.digest]

    def revoke(self, which: str) -> Kept:
        """Take a credential back, and every session that came by it.

        Raises:
            InvalidInput: there is none with this id.
        """
        with self._changing():
            for digest, kept in self._kept.items():
                if kept.id == which:
                    self._kept[digest] = msgspec.structs.replace(kept, revoked=True)
                    return self._kept[digest]
        raise InvalidInput(f"There is no grant {which[:20]!r}. Nothing was changed.")

    def end(self, code: str) -> None:
        """End a browser's session."""
        if kept := self.find(code, ("session",)):
            self.revoke(kept.id)

    def all(self) -> list[Kept]:
        """Those that count, newest first."""
        self._read()
        return sorted(
            (kept for kept in self._kept.values() if kept.expires_at_ms > _now_ms()),
            key=lambda kept: -kept.created_at_ms,
        )

    # --- the file ---

    def _read(self) -> None:
        """Look at the file again if somebody has changed it.

        Raises:
            StorageFailed: it is not what we have written. Nobody is let in.
        """
        try:
            stat = self._path.lstat()
            if self._seen != (seen := (stat.st_mtime_ns, stat.st_ino)):
                kept = msgspec.json.decode(whole(self._path, _FILE_MAX_BYTES), type=list[Kept])
                self._kept, self._seen = {one.digest: one for one in kept}, seen
        except FileNotFoundError:
            self._kept, self._seen = {}, (0, 0)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
            self._kept, self._seen = {}, (0, 0)
            raise _unusable(self._path, error) from None

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Change what is kept, alone among all processes; those that are over are forgotten."""
        with ExitStack() as opened:
            try:
                opened.enter_context(_alone(f"{self._path}.lock"))
            except OSError as error:
                raise _unusable(f"{self._path}.lock", error) from None
            self._read()
            yield
            left = [kept for kept in self._kept.values() if self._is_worth_keeping(kept)]
            try:
                _replace(self._path, msgspec.json.encode(left))
            except OSError as error:
                raise _unusable(f"{self._path}.new", error) from None
            self._seen = (0, 0)

    def _is_worth_keeping(self, kept: Kept) -> bool:
        return kept.expires_at_ms > _now_ms() and (kept.kind != "session" or self._counts(kept))


def _has_key(kept: Kept, request: Request) -> bool:
    """Whether the page that asks has the session's other half. A browser sends a cookie to every
    port of a host; the key is kept by the page's own origin."""
    said = request.headers.getlist(KEY)
    is_one = len(said) == 1 and len(said[0]) <= _CODE_MAX
    return is_one and bool(kept.key) and secrets.compare_digest(_digest(said[0]), kept.key)


@contextmanager
def _alone(path: str) -> Generator[None]:
    """Hold the lock of this file, which somebody may hold for ever: then that is said.

    Raises:
        OSError: it is not to be had.
    """
    file = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        until = time.monotonic() + _LOCK_S
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    why = f"another process has held it for {_LOCK_S:g} s"
                    raise OSError(errno.EAGAIN, why, path) from None
            time.sleep(_LOOK_S)
        yield
    finally:
        os.close(file)


def _replace(path: Path, content: bytes) -> None:
    """Put a new file in its place, whole or not at all."""
    draft = f"{path}.new"
    with suppress(FileNotFoundError):
        os.unlink(draft)  # of a process that was killed, or of somebody else
    file = open_regular(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    with open(file, "wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(file)
    os.replace(draft, path)


def _unusable(path: str | os.PathLike[str], error: Exception) -> StorageFailed:
    said = (error.strerror or "") if isinstance(error, OSError) else ""
    return StorageFailed(
        "Using the grants in",
        path=os.fspath(path),
        why=said or str(error),
        instead="Nobody is let in by them. Move that away; then make new ones: pullcord grant NAME",
    )


def _code() -> str:
    return secrets.token_urlsafe(32)


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).hexdigest()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
