"""One way to the server and back, for any number of statements.

They are handed over in one piece, so that a process that is stopped in the middle of it leaves
nothing half said: a server that waits for the rest of a transaction would hold its locks as long.
Statements are prepared when a connection sends them for the first time.
"""

import contextlib
import select
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from pullcord.journal.postgres.connection import Db

Rows: TypeAlias = list[tuple[Any, ...]]
_BOOL, _BYTES, _INT, _INT4, _TEXT, _FLOAT, _VOID = 16, 17, 20, 23, 25, 701, 2278  # by their oids
_TYPES: Final = {"text": _TEXT, "bytea": _BYTES, "int8": _INT, "float8": _FLOAT, "bool": _BOOL}
_ARRAYS: Final = {_TEXT: 1009, _BYTES: 1001, _INT: 1016, _FLOAT: 1022, _BOOL: 1000}
_WRITTEN: Final[Mapping[int, Callable[[Any], bytes]]] = {
    _TEXT: str.encode,
    _BYTES: bytes,
    _INT: struct.Struct(">q").pack,
    _FLOAT: struct.Struct(">d").pack,
    _BOOL: struct.Struct(">?").pack,
}
_READ: Final[Mapping[int, Callable[[bytes], Any]]] = {
    _TEXT: bytes.decode,
    _BYTES: bytes,
    _INT: lambda data: struct.unpack(">q", data)[0],
    _INT4: lambda data: struct.unpack(">i", data)[0],
    _FLOAT: lambda data: struct.unpack(">d", data)[0],
    _BOOL: lambda data: data == b"\1",
    _VOID: lambda _: None,
}


class Prepared(NamedTuple):
    """A statement with numbered placeholders, and the types of its values, in order."""

    sql: str
    types: str = ""


Said: TypeAlias = tuple[Prepared, Sequence[Any]]
SYNC: Final[Said] = (Prepared("SYNC"), ())
"""What stands before it is over when what stands behind it begins."""


class Exchanger:
    """Sends statements along one connection. Used by one thread at a time."""

    def __init__(self, db: Db) -> None:
        self.db = db
        self._names: dict[Prepared, bytes] = {}
        self._count = 0  # of the names that were ever given
        self._is_owed = False  # whether an answer is on its way that nobody has waited for

    def exchange(self, *said: Said, then: Sequence[Said] = ()) -> list[Rows]:
        """Carry out the statements in order, and return the rows of each.

        `then`: what is to be done when they are over, one way or the other. Nobody is told how that
        went.

        Raises:
            psycopg.Error: one failed. Nothing behind it, up to the next SYNC, was carried out. If
                the connection is closed now, nobody knows that.
        """
        self.settle()
        pgconn = self.db.pgconn
        try:
            pgconn.enter_pipeline_mode()
            sent = [step for one in said for step in self._send(one)]
            pgconn.pipeline_sync()
            after = [step for one in then for step in self._send(one)]
            if then:
                pgconn.pipeline_sync()
            results = self._results(1 + said.count(SYNC) + bool(then))
            pgconn.exit_pipeline_mode()
        except BaseException:
            self.db.close()  # nobody knows what is still to come along it
            raise
        with contextlib.suppress(psycopg.Error):
            self._understood(after, results[len(sent) :])
        return self._understood(sent, results[: len(sent)])

    def leave(self, statement: str) -> None:
        """Send a statement, and do not wait for the answer."""
        self.settle()
        self.db.pgconn.send_query(statement.encode())
        self.db.pgconn.flush()
        self._is_owed = True

    @property
    def is_lost(self) -> bool:
        """Whether the server has ended the connection while nobody used it."""
        try:
            self.settle()
            poll = select.poll()
            poll.register(self.db.pgconn.socket, select.POLLIN)
            if poll.poll(0):
                self.db.pgconn.consume_input()
        except psycopg.Error:
            self.db.close()
        return self.db.closed or self.db.pgconn.status != pq.ConnStatus.OK

    def settle(self) -> None:
        """Take in the answer to what was left."""
        if self._is_owed:
            self._is_owed = False
            while self._next() is not None:
                pass

    def _send(self, said: Said) -> Iterator[tuple[Prepared, bytes]]:
        """Hand one over, and yield what the server answers to: that it is prepared (with the name
        that it then has), and its rows."""
        pgconn, (statement, values) = self.db.pgconn, said
        if said is SYNC:
            pgconn.pipeline_sync()
            return
        types = [_oid(kind) for kind in statement.types.split()]
        if (name := self._names.get(statement)) is None:
            self._count += 1
            name = b"pullcord_%d" % self._count
            pgconn.send_prepare(name, statement.sql.encode(), types)
            yield statement, name
        given = [_written(oid, value) for oid, value in zip(types, values, strict=True)]
        binary = [pq.Format.BINARY] * len(given)
        pgconn.send_query_prepared(name, given, binary, result_format=pq.Format.BINARY)
        yield statement, b""

    def _results(self, syncs: int) -> list[Any]:
        results = list[Any]()
        while syncs:
            if (result := self._next()) is None:  # the end of the answer to one statement
                if self.db.pgconn.status != pq.ConnStatus.OK:
                    raise psycopg.OperationalError("the server closed the connection")
                continue
            if result.status == pq.ExecStatus.PIPELINE_SYNC:
                syncs -= 1
            else:
                results.append(result)
        return results

    def _next(self) -> Any:
        """The server's next word. Other threads go on meanwhile."""
        pgconn, poll = self.db.pgconn, select.poll()
        poll.register(pgconn.socket, select.POLLIN | select.POLLOUT)
        while pgconn.flush():
            poll.poll()
            pgconn.consume_input()
        poll.modify(pgconn.socket, select.POLLIN)
        while pgconn.is_busy():
            poll.poll()
            pgconn.consume_input()
        return pgconn.get_result()

    def _understood(self, sent: Sequence[tuple[Prepared, bytes]], results: list[Any]) -> list[Rows]:
        found, failed = list[Rows](), None
        for (statement, name), result in zip(sent, results, strict=True):
            if result.status == pq.ExecStatus.FATAL_ERROR:
                failed = failed or error_from_result(result)
            elif result.status == pq.ExecStatus.PIPELINE_ABORTED:
                continue
            elif name:
                self._names[statement] = name
            else:
                found.append(_rows(result))
        if failed:
            raise failed
        return found


def _oid(kind: str) -> int:
    name, is_array, _ = kind.partition("[]")
    return _ARRAYS[_TYPES[name]] if is_array else _TYPES[name]


_ELEMENTS: Final = {array: element for element, array in _ARRAYS.items()}


def _written(oid: int, value: Any) -> bytes | None:
    """A value as the server reads it."""
    if value is None:
        return None
    if oid not in _ELEMENTS:
        return _WRITTEN[oid](value)
    element = _ELEMENTS[oid]
    write = _WRITTEN[element]
    parts = [struct.pack(">iiiii", 1, 1, element, len(value), 1)]
    for one in value:
        data = None if one is None else write(one)
        parts.append(struct.pack(">i", -1 if data is None else len(data)))
        parts.append(data or b"")
    return b"".join(parts) if value else struct.pack(">iii", 0, 0, element)


def _rows(result: Any) -> Rows:
    columns = [_READ[result.ftype(n)] for n in range(result.nfields)]
    return [
        tuple(
            None if (data := result.get_value(n, at)) is None else read(data)
            for at, read in enumerate(columns)
        )
        for n in range(result.ntuples)
    ]
