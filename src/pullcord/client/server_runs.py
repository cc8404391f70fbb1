"""A server's runs for the commands, with the same words and errors as those of a store."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from pullcord.client.answers import error_of, read_answer
from pullcord.client.http import Client, Response, ServerEvent
from pullcord.client.run_access import Glance
from pullcord.client.secret_names import sealed
from pullcord.client.server_address import address, token
from pullcord.core.acks import Ack
from pullcord.core.commands import Command, check_command
from pullcord.core.run_ids import the_one
from pullcord.core.states import RunState
from pullcord.core.values import check_id
from pullcord.errors import InvalidInput, RunNotFound, ServerLost
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.client import event_stream
    from pullcord.client import replies as shapes
else:
    shapes = lazy_import("pullcord.client.replies")
    event_stream = lazy_import("pullcord.client.event_stream")

T = TypeVar("T")
_PAGE: Final = 100  # runs in one answer
_RECORDS: Final = 500
_NOT_SENT: Final = ("by", "source", "via")  # the server adds these itself
_UNKNOWN_CALL: Final = "-"  # for a question that is not open: the server explains why


class MeReply(msgspec.Struct):
    by: str
    right: str
    run: str | None


class _Found(msgspec.Struct):
    runs: list[str]


class _Brief(msgspec.Struct):
    state: RunState
    driven: bool
    still: str = ""


class _BriefShown(msgspec.Struct):
    panel: _Brief


class _Started(msgspec.Struct):
    run: str


class _Ids(msgspec.Struct):
    runs: list[_Started]


class _Question(msgspec.Struct):
    question: str
    call: str = ""


class _Questions(msgspec.Struct):
    cards: list[_Question]
    questions: list[_Question]


class ServerRuns:
    """The runs of one server, for one command."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.where = client.where.url

    def find(self, said: str) -> str:
        check_id(said)
        found = self._get(f"/find?begins={said}&limit=4", _Found).runs
        return the_one(said, [check_id(one) for one in found])

    def command(self, run_id: str, command: Command) -> Ack:
        """Send a command. It retries a lost connection with the same key, so it counts once."""
        check_id(run_id)
        command = check_command(sealed(command))
        fields = msgspec.structs.asdict(command)
        body = {k: v for k, v in fields.items() if k not in _NOT_SENT and v is not None}
        body.setdefault("key", os.urandom(8).hex())
        if body.get("call") == "":
            body["call"] = _UNKNOWN_CALL
        answer = self._post(f"/runs/{run_id}/{command.verb}", body, again=True)
        return error_of(answer) or read_answer(self.where, answer, Ack)

    def note_shown(self, run_id: str, said: object) -> None:
        pass  # the server sent it and records that itself

    def glance(self, run_id: str) -> Glance:
        brief = self._get(f"/runs/{check_id(run_id)}", _BriefShown).panel
        return Glance(brief.state, brief.driven, brief.still)

    def questions(self, run_id: str) -> dict[str, str]:
        found = self._get(f"/inbox?run={check_id(run_id)}", _Questions)
        return {one.question: one.call for one in (*found.cards, *found.questions)}

    def me(self) -> MeReply:
        """Return the name and the right that the server gives to our token."""
        return self._get("/me", MeReply)

    def ids(self, states: Iterable[RunState], limit: int) -> list[str]:
        wanted = "".join(f"&state={state}" for state in states)
        found = self._get(f"/runs?limit={min(limit, _PAGE)}{wanted}", _Ids)
        return [one.run for one in found.runs]

    def panel(self, run_id: str) -> Any:
        return self._get(f"/runs/{check_id(run_id)}", shapes.RunReply).panel

    def listed(
        self, states: Iterable[RunState], limit: int, before: str | None = None
    ) -> list[Any]:
        wanted = "".join(f"&state={state}" for state in states)
        found: list[Any] = []
        while len(found) < limit:
            size = min(limit - len(found), _PAGE)
            last = found[-1].run if found else before
            after = f"&before={check_id(last)}" if last else ""
            page = self._get(f"/runs?limit={size}{wanted}{after}", shapes.RunsReply).runs
            found += page
            if len(page) < size:
                break
        return found

    def records(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Any]:
        found: list[Any] = []
        while limit is None or len(found) < limit:
            size = _RECORDS if limit is None else min(limit - len(found), _RECORDS)
            at = found[-1].seq if found else after
            path = f"/runs/{check_id(run_id)}/records?after={at}&limit={size}"
            page = [
                shapes.record(run_id, one) for one in self._get(path, shapes.RecordsReply).records
            ]
            found += page
            if len(page) < size:
                break
        return found

    def receipt(self, run_id: str) -> Any:
        return self._get(f"/runs/{check_id(run_id)}/receipt", shapes.Receipt)

    def waiting(self, run_id: str | None) -> Any:
        only = f"?run={check_id(run_id)}" if run_id else ""
        return self._get(f"/inbox{only}", shapes.Inbox)

    def begin(self, verb: str, run_id: str | None, said: dict[str, Any]) -> str:
        """Start a run. Without an answer, look whether the run exists, and start nothing twice."""
        path = f"/runs/{run_id}/{verb}" if run_id else "/runs"
        made = said.get("run_id") or os.urandom(4).hex()
        body = {k: v for k, v in said.items() if v is not None} | {"run_id": made}
        try:
            answer = self._post(path, body, again=False)
        except ServerLost:
            try:
                self.glance(made)
            except RunNotFound:
                answer = self._post(path, body, again=False)
            else:
                return made
        return check_id(read_answer(self.where, answer, _Started).run)

    def switch(self, act: str, kind: str, name: str, reason: str) -> dict[str, Any]:
        """Engage or release the server's kill switch, or return its state."""
        if act == "status":
            return self._get("/kill-switch", dict[str, Any])
        body = {"reason": reason} | ({kind: name} if kind else {})
        answer = self._post(f"/kill-switch/{act}", body, again=act == "engage")
        return read_answer(self.where, answer, dict[str, Any])

    # --- as it happens ---

    def stream(self, run_id: str, after: Any) -> Iterator[Any]:
        if self._is_over(run_id, after):
            return
        for event in self._told(f"/runs/{check_id(run_id)}/events", str(after)):
            if event.kind not in ("record", "text"):
                continue
            place, what = shapes.item(run_id, event)
            if place <= after:
                continue  # sent again without withdrawn content; a terminal has printed it
            after = place
            yield place, what
            if shapes.is_the_end(what):
                return

    def _is_over(self, run_id: str, after: Any) -> bool:
        """Return whether the run ended before that place."""
        seen = self.panel(run_id)
        if not seen.ended or after.seq > seen.seq:
            return False
        return not any(shapes.is_the_end(one) for one in self.records(run_id, after.seq))

    def wait(self, run_id: str, holds: Callable[[], T | None], timeout_s: float | None) -> T | None:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        if (found := holds()) is not None:
            return found
        path = f"/runs/{check_id(run_id)}/events"
        for event in self._told(path, "now", only="panel", until=until):
            if event.kind == "panel" and (found := holds()) is not None:
                return found
        return holds()

    def _told(
        self, path: str, place: str, *, only: str = "", until: float | None = None
    ) -> Iterator[ServerEvent]:
        return event_stream.EventStream(self.client, path, place, only=only, until=until).events()

    # --- question and answer ---

    def _get(self, path: str, kind: type[T]) -> T:
        return read_answer(self.where, self.client.ask("GET", path, again=True), kind)

    def _post(self, path: str, body: dict[str, Any], *, again: bool) -> Response:
        return self.client.ask("POST", path, msgspec.json.encode(body), again=again)


@contextmanager
def reach(asked: Any) -> Generator[ServerRuns]:
    """Open a client for the server.

    Raises:
        InvalidInput: the address or the token cannot be one; nothing was sent.
    """
    if getattr(asked, "signed", None):
        raise InvalidInput(
            "A server signs with the name that the token was given to, not with --by. Nothing was "
            "sent."
        )
    where = address(asked.server, insecure=asked.insecure)
    client = Client(where, token(asked.token_file))
    try:
        yield ServerRuns(client)
    finally:
        client.close()
