"""serve, demo: the page and the HTTP API of a store, and agents driven beside them."""

import asyncio
import logging
import os
import resource
import sys
import tempfile
import webbrowser
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pullcord.cli.agent_files import load_file
from pullcord.cli.agents_loop import Done, in_a_loop
from pullcord.cli.arguments import seconds_of
from pullcord.cli.as_json import to_json
from pullcord.cli.local_runs import whoami
from pullcord.cli.parser import store_path
from pullcord.cli.runtime_options import timing_of, webhooks
from pullcord.cli.stop_signals import StopSignals
from pullcord.client.secret_names import from_environment
from pullcord.errors import InvalidInput, PullcordError
from pullcord.journal.store_location import beside, shown_location
from pullcord.lazy_import import lazy_import
from pullcord.runtime.agents import AgentConfig
from pullcord.runtime.opening import open_runtime
from pullcord.runtime.runtime import Runtime
from pullcord.server.credentials import Keeper
from pullcord.server.standalone import Standalone, listen

if TYPE_CHECKING:
    from pullcord.demo import agents as demo
else:
    demo = lazy_import("pullcord.demo.agents")

_log: Final = logging.getLogger("pullcord.cli")
_DAY_S: Final = 86_400.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")


def carry_out(asked: Any) -> int:
    logging.basicConfig(format="%(levelname)s %(name)s: %(message)s", level=logging.WARNING)
    if asked.verb == "demo":
        with tempfile.TemporaryDirectory(prefix="pullcord-demo-") as folder:
            done = _demo(asked, os.path.join(folder, "demo.db"))
        return done.leave()
    agents: dict[str, AgentConfig] = {}
    targets: dict[str, str] = {}
    for file in asked.files:
        for name, agent in load_file(file).items():
            agents[name] = agent
            targets[name] = f"{Path(file).resolve()}:{name}"
    return in_a_loop(_serve(asked, store_path(asked.store), agents, targets)).leave()


def _demo(asked: Any, path: str) -> Done:
    asked.host, asked.allow_host, asked.allow_origin = "127.0.0.1", [], []
    os.environ["PULLCORD_DEMO_FILES"] = os.path.join(os.path.dirname(path), "files")
    os.environ.setdefault("PYDANTIC_AI_NO_BANNER", "1")  # it would cover the link
    agents = demo.agents(model=asked.model or None, pace=asked.pace)
    if said := demo.missing():
        print(said, file=sys.stderr)
    return in_a_loop(_serve(asked, path, agents, {}))


async def _serve(
    asked: Any, path: str, agents: Mapping[str, AgentConfig], targets: Mapping[str, str]
) -> int:
    if asked.host not in ("127.0.0.1", "::1", "localhost") and not asked.allow_host:
        raise InvalidInput(
            f"Listening on {asked.host} lets other machines in. Nothing was started. Say by which "
            "name they reach this one: pullcord serve --host ... --allow-host NAME"
        )
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a socket per reader
    loop, stopped = asyncio.get_running_loop(), asyncio.Event()

    def stop() -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
            loop.call_soon_threadsafe(stopped.set)

    leaves = "Every run is kept as it is, for whoever drives it next."
    with StopSignals(stop, says="Giving every run back.", leaves=leaves):
        return await _serve_until(stopped, asked, path, agents, targets)


async def _serve_until(
    stopped: asyncio.Event,
    asked: Any,
    path: str,
    agents: Mapping[str, AgentConfig],
    targets: Mapping[str, str],
) -> int:
    hooks = webhooks(asked) if asked.verb == "serve" else []
    async with open_runtime(
        path,
        agents=agents,
        secrets=from_environment(),
        timing=timing_of(asked),
        notify=hooks,
        on_stop=hooks,
    ) as runtime:
        listening = _listen(asked)
        port: int = listening.getsockname()[1]
        keeper = Keeper(f"{beside(path)}.grants", name=whoami(None), cookie=f"pullcord-{port}")
        server = Standalone(
            runtime,
            listening,
            keeper=keeper,
            hosts=[*(f"{name}:{port}" for name in _LOOPBACK), *asked.allow_host],
            origins=asked.allow_origin,
            targets=targets,
        )
        await server.start()
        host = f"[{asked.host}]" if ":" in asked.host else asked.host
        _say(asked, f"http://{host}:{port}/#launch={keeper.launch()}", agents, shown_location(path))
        if asked.verb == "demo":
            await runtime.start(next(iter(agents)), by=whoami(None))  # so that there is one to stop
        if retain := getattr(asked, "retain", None):
            await _tidy_until(stopped, runtime, seconds_of(retain))
        await stopped.wait()
        await server.stop()
    return 0


async def _tidy_until(stopped: asyncio.Event, runtime: Runtime, age_s: float) -> None:
    """Forget what is older than it is to be kept, now and once a day."""
    while not stopped.is_set():
        try:
            made = await runtime.forget(
                older_than_s=age_s, yes=True, by="retain", reason="older than it is to be kept"
            )
            if made.gone:
                _log.warning("Deleted the payloads of %d runs: retain.", len(made.gone))
        except PullcordError:  # a full disk, say: tomorrow is another day
            _log.exception("What is older than it is to be kept could not be forgotten.")
        with suppress(TimeoutError):
            async with asyncio.timeout(_DAY_S):
                await stopped.wait()


def _listen(asked: Any) -> Any:
    try:
        return listen(asked.host, asked.port)
    except OSError as error:
        raise InvalidInput(
            f"Cannot listen on {asked.host}, port {asked.port}: {error.strerror}. Nothing was "
            "started. Take another one, or any that is free: --port 0"
        ) from None


def _say(asked: Any, url: str, agents: Mapping[str, AgentConfig], path: str) -> None:
    if getattr(asked, "json", False):
        said = to_json({"url": url, "agents": list(agents), "store": path})
        return print(said, end="", flush=True)
    known = ", ".join(agents) or "none: it looks and controls, and drives nothing"
    print(f"Pullcord serves {path}\n  agents  {known}\n  open    {url}", flush=True)
    print("The link works once. Ctrl-C stops the server and gives every run back.", flush=True)
    has_screen = bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if asked.open and has_screen:
        webbrowser.open(url)
    return None
