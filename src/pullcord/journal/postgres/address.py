"""The URL of a PostgreSQL store: what it names, and what of it may be shown.

Read without PostgreSQL's own library: whoever pulls the kill switch has to find the folder of the
store while there is neither a server nor a driver.
"""

import getpass
import os
import re
from hashlib import sha256
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote, unquote, urlencode, urlsplit

from pullcord.errors import InvalidInput, StoreRefused

SCHEMES: Final = ("postgresql://", "postgres://")
STATE_ENV: Final = "PULLCORD_STATE"
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,39}")
_LOOPBACK: Final = re.compile(r"localhost|127(\.[0-9]{1,3}){3}|::1", re.IGNORECASE)
_NAME_MAX: Final = 200  # of a folder; the digest of a longer one comes behind its beginning
_SHOWN: Final = "postgresql://…"  # a URL that cannot be read may have its password anywhere


class DatabaseAddress(NamedTuple):
    """A database, and the schema in it that is ours. `url` may hold a password: nobody is shown it.
    `hidden` is what must not be in any message, however it is written."""

    url: str
    host: str  # a name, an address, the folder of a socket; empty: as libpq decides
    port: str
    database: str
    schema: str
    hidden: tuple[str, ...]
    has_secret: bool  # in the URL itself
    reached_at: str  # the host, unless the URL says where that really is

    def __repr__(self) -> str:
        return f"Address({self.name})"

    @property
    def name(self) -> str:
        """The same place as people may read it, and a URL that finds it again."""
        where = quote(self.host, safe=":.,[]") + f":{self.port}"
        schema = "" if self.schema == "pullcord" else f"?schema={self.schema}"
        return f"postgresql://{where}/{quote(self.database)}{schema}"

    @property
    def beside(self) -> str:
        """See `store_location.beside`. Whoever names the same database gets the same folder, as
        far as its names can tell: `localhost` and `127.0.0.1` are one, another name of a machine
        is not."""
        host = "localhost" if _LOOPBACK.fullmatch(self.host.strip("[]")) else self.host.lower()
        parts = (host or "socket", self.port, self.database, self.schema)
        folder = "_".join(quote(part, safe="").replace("_", "%5F") for part in parts)
        if len(folder) > _NAME_MAX:  # several hosts, say
            folder = f"{folder[: _NAME_MAX - 33]}~{sha256(folder.encode()).hexdigest()[:32]}"
        return str(state_folder() / folder / "runs")

    @property
    def is_here(self) -> bool:
        """Whether it is this machine, by what the URL says alone."""
        is_socket = not self.reached_at or self.reached_at.startswith(("/", "@"))
        return is_socket or bool(_LOOPBACK.fullmatch(self.reached_at.strip("[]")))

    def said(self, text: str) -> str:
        """What somebody else's message says, in a line without a secret."""
        line = " ".join(text.split()).rstrip(".")
        for secret in self.hidden:
            line = line.replace(secret, "***")
        return line[:300]


def parsed(url: str) -> DatabaseAddress:
    """What a URL names.

    Raises:
        StoreRefused: it names nothing, or hides what it names.
    """
    try:
        split = urlsplit(url)
        given = _options(split.query)
    except ValueError:
        raise _refused(_SHOWN, "it cannot be read as a URL") from None
    if "service" in given or os.environ.get("PGSERVICE"):
        raise _refused(_SHOWN, "a service of libpq hides which database is meant")
    if not url.startswith(SCHEMES):
        raise _refused(_SHOWN, f"it does not begin with {SCHEMES[0]}")
    if url.count("@") > 1 or ("@" in url and "@" not in split.netloc) or split.fragment:
        # libpq ends a password elsewhere than we do, and what it takes for a host it tells.
        raise _refused(_SHOWN, "an @, /, ? or # of a password is written as %40, %2F, %3F or %23")
    user_info, _, where = split.netloc.rpartition("@")
    user, _, password = user_info.partition(":")
    schema = given.pop("schema", "pullcord")
    host, port = _host_and_port(where)
    names = {"host": host, "port": port, "dbname": split.path[1:], "user": user}
    if twice := [name for name, said in names.items() if said and name in given]:
        raise _refused(_SHOWN, f"it names its {twice[0]} twice")  # libpq would take the last
    host = unquote(host) or given.get("host") or given.get("hostaddr") or _env("PGHOST")
    user = unquote(user) or given.get("user") or _env("PGUSER") or _whoever()
    found = DatabaseAddress(
        url=f"{SCHEMES[0]}{split.netloc}{split.path}?{urlencode(given, quote_via=quote)}",
        host=host,
        port=port or given.get("port") or _env("PGPORT") or "5432",
        database=unquote(split.path[1:]) or given.get("dbname") or _env("PGDATABASE") or user,
        schema=schema,
        hidden=_hidden(password, given),
        has_secret=bool(password or given.get("password") or given.get("sslpassword")),
        reached_at=given.get("hostaddr") or host,
    )
    if not re.fullmatch(r"[0-9,]+", found.port):  # (then a part of a password may stand there)
        raise _refused(_SHOWN, "what stands for its port is no number")
    if not _SCHEMA.fullmatch(schema):
        raise _refused(_SHOWN, f"{schema[:60]!r} cannot be the name of its schema")
    return found


def _hidden(password: str, given: dict[str, str]) -> tuple[str, ...]:
    plain = [unquote(password), given.get("password", ""), given.get("sslpassword", "")]
    coded = [password, *(quote(one, safe="") for one in plain), *map(quote, plain)]
    secrets = {one for one in (*plain, *coded, os.environ.get("PGPASSWORD", "")) if one}
    return tuple(sorted(secrets, key=len, reverse=True))


def _options(query: str) -> dict[str, str]:
    """As libpq reads them: a + is a +, and the last one counts.

    Raises:
        ValueError: one has no value.
    """
    pairs = [one.split("=") for one in query.split("&")] if query else []
    return {unquote(name): unquote(value) for name, value in pairs}


def _host_and_port(where: str) -> tuple[str, str]:
    host, colon, port = where.rpartition(":")
    return (host, port) if colon and not port.endswith("]") else (where, "")


def _whoever() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # (OSError from Python 3.13 on)
        return ""


def _env(name: str) -> str:
    return os.environ.get(name, "")


def _refused(name: str, why: str) -> StoreRefused:
    return StoreRefused(
        name,
        why=why,
        instead="Write it as postgresql://USER@HOST:PORT/DATABASE, and the password into "
        "~/.pgpass or PGPASSWORD.",
    )


def state_folder() -> Path:
    """Where what belongs to a server's database is kept on this machine.

    Raises:
        InvalidInput: nowhere, or at another place for each who asks.
    """
    said, home = _env(STATE_ENV), _env("XDG_STATE_HOME")
    try:
        folder = Path(said or home or Path.home() / ".local" / "state")
    except RuntimeError:  # a container's user whom nobody knows
        folder = Path()
    if not folder.is_absolute():  # who goes elsewhere would look at another switch
        given = said or home
        why = f"{given} does not begin with /" if given else "this user has no home"
        raise InvalidInput(
            f"There is no folder for the kill switch of this store: {why}. "
            f"Nothing was changed. Name one that begins with /: {STATE_ENV}"
        )
    return folder if said else folder / "pullcord"
