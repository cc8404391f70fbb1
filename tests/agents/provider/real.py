"""A real model server (llama.cpp's own, from xllamacpp) in a process of its own.

    with RealServer() as server:
        ... point a client at server.url("chat") ...
        server.wait_busy(); cancel the client; server.wait_idle()

The model writes random words. `ENDLESS` as pydantic-ai model settings makes a reply that never
ends by itself, in every dialect; `RealServer(endless=True)` does so for whoever asks.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import importlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from tests.agents.provider.dialects import Dialect, Json

_STARTS_WITHIN_S = 60
_STOPS_WITHIN_S = 10
_POLL_S = 0.01

# The server's log at verbosity 3, one line each per request.
_BEGUN = re.compile(r"launch_slot_: id +\d+ \| task (\d+) \| processing task")
_ENDED = re.compile(r"release: id +\d+ \| task (\d+) \| stop processing: n_tokens = (\d+)")

# For Chat Completions and Responses `ignore_eos` is enough. Messages drops it, as it drops
# `logit_bias`, but takes `top_k`: and the likeliest token of our model is never the end.
# pydantic-ai itself drops `top_k` for newer Claude names; "claude-haiku-4-5" keeps it.
ENDLESS: Json = {"max_tokens": 1_000_000, "extra_body": {"ignore_eos": True, "top_k": 1}}


class RealServer:
    """The server: how many replies at a time, how dear a token, how many threads it may use."""

    def __init__(
        self, *, slots: int = 2, layers: int = 4, threads: int = 1, endless: bool = False
    ) -> None:
        self.base_url = ""
        self.slots = slots
        self._layers = layers
        self._threads = threads
        self._endless = endless
        self._folder = tempfile.TemporaryDirectory(prefix="real_server_")
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, dialect: Dialect) -> str:
        """The base address that this dialect's SDK wants."""
        return self.base_url if dialect == "anthropic" else f"{self.base_url}/v1"

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def slots_busy(self) -> int:
        """How many slots are generating at this moment, by `/slots`. Not to be asked in a loop!

        The server looks whether the client of a non-streaming request is still there only after
        a second in which nobody got any answer. Asking it often keeps it from noticing.
        """
        return sum(slot.get("is_processing") is True for slot in self._read_slots())

    def tokens_decoded(self) -> int:
        """How many tokens the requests in progress have cost so far. The same warning holds."""
        last = (cast(list[Json], slot.get("next_token") or []) for slot in self._read_slots())
        return sum(cast(int, one.get("n_decoded", 0)) for tokens in last for one in tokens)

    def wait_busy(self, n: int = 1, *, timeout_s: float = 10) -> float:
        """Wait until at least n requests are generating; the seconds that took."""
        return self._wait(lambda busy: busy >= n, f"{n} busy slots", timeout_s)

    def wait_idle(self, *, timeout_s: float = 10) -> float:
        """Wait until none is; the seconds that took. `/slots` is asked once, to confirm."""
        took_s = self._wait(lambda busy: busy == 0, "no busy slot", timeout_s)
        assert self.slots_busy() == 0, "the log says idle, /slots does not"
        return took_s

    def tasks_begun(self) -> list[int]:
        """The server's numbers of all requests that began to generate, by its log."""
        return [int(task) for task in _BEGUN.findall(self._read_log())]

    def tasks_ended(self) -> dict[int, int]:
        """The requests that ended, by the log: number → tokens, those of the prompt included."""
        return {int(task): int(tokens) for task, tokens in _ENDED.findall(self._read_log())}

    async def async_wait_busy(self, n: int = 1, *, timeout_s: float = 10) -> float:
        return await asyncio.to_thread(self.wait_busy, n, timeout_s=timeout_s)

    async def async_wait_ended(self, task: int, *, timeout_s: float = 10) -> None:
        """Wait until this request generates nothing more, by the log."""
        what = f"the end of request {task}"
        await asyncio.to_thread(self._wait, lambda _: task in self.tasks_ended(), what, timeout_s)

    async def async_wait_begun(self, n: int, *, timeout_s: float = 10) -> None:
        """Wait until so many requests have begun to generate since the server was started."""
        what = f"{n} requests"
        await asyncio.to_thread(self._wait, lambda _: len(self.tasks_begun()) >= n, what, timeout_s)

    async def async_wait_idle(self, *, timeout_s: float = 10) -> float:
        return await asyncio.to_thread(self.wait_idle, timeout_s=timeout_s)

    def __enter__(self) -> RealServer:
        log = (Path(self._folder.name) / "log").open("wb")
        options = {
            "--folder": self._folder.name,
            "--slots": str(self.slots),
            "--layers": str(self._layers),
            "--threads": str(self._threads),
        }
        command = [
            sys.executable,
            "-m",
            __spec__.name,
            *(word for pair in options.items() for word in pair),
        ]
        self._process = subprocess.Popen(
            command + (["--endless"] if self._endless else []),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            cwd=Path(__file__).parents[3],
        )
        log.close()
        try:
            self._wait_started()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._stop()

    def _wait_started(self) -> None:
        address = Path(self._folder.name) / "address"
        end = time.monotonic() + _STARTS_WITHIN_S
        assert self._process is not None
        while not address.exists():
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the model server did not start: {self._read_log()[-2000:]}")
            time.sleep(_POLL_S)
        self.base_url = address.read_text()

    def _stop(self) -> None:
        """End our process and nothing else; its model and log go with it."""
        process = self._process
        if process is not None:
            assert process.stdin is not None
            process.stdin.close()  # the child ends when its input does
            try:
                process.wait(_STOPS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(_STOPS_WITHIN_S)
        self._folder.cleanup()

    def _wait(self, holds: Callable[[int], bool], what: str, timeout_s: float) -> float:
        begun = time.monotonic()
        while True:
            busy = len(set(self.tasks_begun()) - self.tasks_ended().keys())
            now = time.monotonic()
            if holds(busy):
                return now - begun
            if now - begun > timeout_s:
                raise TimeoutError(f"not within {timeout_s:g} s: {what}; busy: {busy}")
            time.sleep(_POLL_S)

    def _read_log(self) -> str:
        """What the server wrote so far: the one way to watch it without disturbing it."""
        return (Path(self._folder.name) / "log").read_text(errors="replace")

    def _read_slots(self) -> list[Json]:
        host = self.base_url.removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=10)
        try:
            connection.request("GET", "/slots")
            return cast(list[Json], json.loads(connection.getresponse().read()))
        finally:
            connection.close()


def _serve() -> None:
    """The child process: write the model, serve it, end when our input ends."""
    # The binding has no types at all.
    xllamacpp = cast(Any, importlib.import_module("xllamacpp"))

    from tests.agents.provider.model_file import write_model

    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--slots", type=int, required=True)
    parser.add_argument("--layers", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--endless", action="store_true")
    given = parser.parse_args()

    params = xllamacpp.CommonParams()
    params.model.path = str(write_model(given.folder / "model.gguf", layers=given.layers))
    params.port = 0
    params.n_ctx = 4096 * given.slots
    params.n_parallel = given.slots
    params.ctx_shift = True  # a reply may be longer than the context
    params.warmup = False
    params.endpoint_slots = True
    params.verbosity = 3  # the lines that `_BEGUN` and `_ENDED` look for
    params.cpuparams.n_threads = given.threads
    params.cpuparams_batch.n_threads = given.threads
    params.sampling.ignore_eos = given.endless
    server = xllamacpp.Server(params)

    # Written under another name first: whoever sees the file sees all of it.
    partial = given.folder / "address.partial"
    partial.write_text(server.listening_address)
    partial.rename(given.folder / "address")
    sys.stdin.buffer.read()
    os._exit(0)  # a slot may be generating for ever: there is nothing to wait for


if __name__ == "__main__":
    _serve()
