"""A server on a real socket with a store of its own, and eyes on everything that it has kept."""

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pullcord
from pullcord import AgentConfig, RunHandle, Runtime, Timing
from pullcord.core.events import encode_event
from pullcord.runtime.agents import Function
from pullcord.server.bounds import Bounds
from pullcord.server.credentials import Keeper
from pullcord.server.rights import Right
from pullcord.server.standalone import Standalone, listen
from tests.server.http import Answer, Reader, exchange, request_bytes

BOUND_S: Final = 60
COOKIE: Final = "pullcord-test"
EVIL: Final = "http://evil.example"


def of_session(session: str) -> tuple[tuple[str, str], tuple[str, str]]:
    """The headers that a page of ours sends in a session."""
    cookie, _, key = session.partition(" ")
    return ("Cookie", cookie), ("X-Pullcord-Key", key)


class RunningServer:
    """One server. What it is asked goes over a socket; what it has kept is looked at directly."""

    def __init__(self, folder: Path, runtime: Runtime, *, port: int, keeper: Keeper) -> None:
        self.folder = folder
        self.runtime = runtime
        self.keeper = keeper
        self.port = port
        self.name = f"127.0.0.1:{port}"
        self.server: Standalone | None = None
        self._mine = self.token()

    def token(self, right: Right = "admin", run: str | None = None, *, lasts_s: float = 600) -> str:
        """A token that counts, made without asking the server."""
        name = f"{right} of {run or 'all'}"
        return self.keeper.give(kind="token", name=name, right=right, run=run, lasts_s=lasts_s)[1]

    def link(self, right: Right, run: str, *, lasts_s: float = 600) -> tuple[str, str]:
        """A link for one run: its id and its code."""
        kept, code = self.keeper.give(
            kind="link", name=f"{right} {run}", right=right, run=run, lasts_s=lasts_s
        )
        return kept.id, code

    # --- ask ---

    async def raw(self, sent: bytes, *, half_close: bool = False) -> Answer:
        """Send these bytes on a connection of their own and return what is answered."""
        async with asyncio.timeout(BOUND_S):
            return await exchange(self.port, sent, half_close=half_close)

    async def send(
        self, method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b""
    ) -> Answer:
        """Send exactly these headers."""
        return await self.raw(request_bytes(method, target, headers, body))

    def headers(self, who: str | None = None) -> dict[str, str]:
        """Who asks: a token (ours, if nothing is said), or the cookie of a session."""
        if who and who.startswith(f"{COOKIE}="):
            return {"Host": self.name, **dict(of_session(who))}
        return {"Host": self.name, "Authorization": f"Bearer {who or self._mine}"}

    async def get(self, target: str, who: str | None = None) -> Answer:
        return await self.send("GET", target, self.headers(who).items())

    async def post(
        self,
        target: str,
        said: Any = None,
        who: str | None = None,
        *,
        more: Mapping[str, str] | None = None,
    ) -> Answer:
        body = said if isinstance(said, bytes) else json.dumps(said or {}).encode()
        headers = {
            **self.headers(who),
            "Content-Type": "application/json",
            "X-Pullcord": "1",
            "Content-Length": str(len(body)),
            **(more or {}),
        }
        return await self.send("POST", target, headers.items(), body)

    async def session(self, code: str) -> str:
        """What a browser gets for a launch code or a link's: its cookie, a blank, its key."""
        answer = await self.post("/session", {"code": code})
        assert answer.status == 200, answer
        return f"{answer.header('set-cookie').partition(';')[0]} {answer.json['key']}"

    @asynccontextmanager
    async def reading(
        self, target: str, who: str | None = None, *, last_id: str = "", buffer: int = 0
    ) -> AsyncGenerator[Reader]:
        """Read a stream of events, after `last_id`; `buffer`: how much is taken unread."""
        headers = self.headers(who) | ({"Last-Event-ID": last_id} if last_id else {})
        request = request_bytes("GET", target, headers.items())
        reader = await Reader.open(self.port, request, buffer=buffer)
        try:
            yield reader
        finally:
            reader.close()

    # --- look ---

    async def kept(self) -> list[str]:
        """Everything that a request could have changed: all records and all credentials."""
        found: list[str] = []
        before = None
        while heads := await self.runtime.journal.runs(before=before, limit=100):
            for head in heads:
                records = await self.runtime.journal.read(head.run_id)
                found += [f"{head.run_id} {r.seq} {encode_event(r.event)!r}" for r in records]
            before = heads[-1].run_id
        return [*found, *(path.read_text() for path in sorted(self.folder.glob("grants*")))]

    def connections(self) -> int:
        """How many sockets are connected to the server, as the kernel sees it."""
        mine = f"{self.port:04X}"
        rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return sum(row[1].endswith(f":{mine}") and row[3] == "01" for row in rows)

    async def is_well(self) -> None:
        """The next request is answered."""
        answer = await self.get("/me")
        assert answer.status == 200, answer

    async def start(self, agent: str, **how: Any) -> RunHandle:
        return await self.runtime.start(agent, **how)


@asynccontextmanager
async def running_server(
    folder: Path,
    *,
    bounds: Bounds | None = None,
    origins: Iterable[str] = (),
    timing: Timing | None = None,
    port: int = 0,
    **agents: "AgentConfig | Function",
) -> AsyncGenerator[RunningServer]:
    """A server that stands alone, in its own thread, beside a runtime that knows these agents."""
    keeper = Keeper(folder / "grants.json", name="ana", cookie=COOKIE)
    async with pullcord.open(folder / "store.db", agents=agents, timing=timing) as runtime:
        socket = listen("127.0.0.1", port)
        made = RunningServer(folder, runtime, port=socket.getsockname()[1], keeper=keeper)
        server = made.server = Standalone(
            runtime, socket, keeper=keeper, hosts=[made.name], origins=origins, bounds=bounds
        )
        await server.start()
        try:
            yield made
        finally:
            await server.stop()
            socket.close()
