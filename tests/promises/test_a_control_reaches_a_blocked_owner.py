"""Promise: a control from another process reaches what is in flight, also while the owner's event
loop is blocked. No loop, no task and no `await` of the owner is needed for it.
"""

import asyncio
from pathlib import Path

from pullcord.core.commands import Cancel
from pullcord.journal.journal import Journal
from tests.promises.children import child


async def test_a_cancel_from_another_process_closes_the_socket_of_a_blocked_owner(
    tmp_path: Path,
) -> None:
    cut = asyncio.Event()

    async def provider(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not await reader.read():  # the owner says nothing: only a cut ends this
            cut.set()
        writer.close()

    server = await asyncio.start_server(provider, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    store = tmp_path / "runs.db"
    async with child("tests.promises.owners", "blocked", str(store), str(port)) as owner:
        assert await owner.says() == "blocked"
        async with Journal.open(store) as journal:
            ack = await journal.command("r1", Cancel(by="ana", reason="looks unsafe"))
            assert ack.verdict == "applied"
        async with asyncio.timeout(120):
            await cut.wait()
        await owner.tell("go on")
        assert await owner.says() == "CancelRequested"
    server.close()
    await server.wait_closed()
