"""One way to the server and back, for any number of statements.

They are handed over in one piece, so that a process that is stopped in the middle of it leaves
nothing half said: a server that waits for the rest of a transaction would hold its locks as long.
Statements are prepared when a connection sends them for the first time.
"""

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


_Steps: TypeAlias = list[tuple[Prepared, bytes]]
"""What the server answers to, up to a SYNC: that a statement is prepared, under this name; or ("")
its rows."""


class Exchanger:
    """Sends statements along one connection. Used by one thread at a time."""

    def __init__(self, db: Db) -> None:
        self.db = db
        self._names: dict[Prepared, bytes] = {}
        self._count = 0  # of the names that were ever given
        self._owed: list[_Steps] = []  # what nobody has waited for
        db.pgconn.enter_pipeline_mode()

    def exchange(self, *said: Said, then: Sequence[Said] = ()) -> list[Rows]:
        """Carry out the statements in order, and return the rows of each.

        `then`: what is to be done when they are over, one way or the other. Nobody waits for that,
        and nobody is told how it went.

        Raises:
            psycopg.Error: one failed. Nothing behind it, up to the next SYNC, was carried out. If
                the connection is closed now, nobody knows that.
        """
        try:
            mine = self._send(said)
            before, self._owed = self._owed, self._send(then)
            for steps in before:
                self._understood(steps)
            answers = [self._understood(steps) for steps in mine]
        except BaseException:
            self.db.close()  # nobody knows what is still to come along it
            raise
        for _, failed in answers:
            if failed is not None:
                raise failed
        return [rows for found, _ in answers for rows in found]

    def leave(self, statement: Prepared) -> None:
        """Send a statement, and do not wait for the answer."""
        self._owed += self._send([(statement, ())])
        self.db.pgconn.flush()

    @property
    def is_lost(self) -> bool:
        """Whether the server has ended the connection while nobody used it."""
        if not self.db.closed:
            poll = select.poll()
            poll.register(self.db.pgconn.socket, select.POLLIN)
            try:
                if poll.poll(0):
                    self.db.pgconn.consume_input()
            except psycopg.Error:
                self.db.close()
        return self.db.closed

    def _send(self, said: Sequence[Said]) -> list[_Steps]:
        """Hand everything over, and return what the server answers to, by SYNC."""
        pgconn, sent = self.db.pgconn, list[_Steps]()
        sent.append([])
        for one in said:
            if one is SYNC:
                pgconn.pipeline_sync()
                sent.append([])
            else:
                sent[-1] += self._say(one)
        if not said:
            return []
        pgconn.pipeline_sync()
        return sent

    def _say(self, said: Said) -> Iterator[tuple[Prepared, bytes]]:
        pgconn, (statement, values) = self.db.pgconn, said
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

    def _understood(self, steps: _Steps) -> tuple[list[Rows], psycopg.Error | None]:
        """Wait for the answers to these, and return the rows of each, and the first error."""
        found, failed = list[Rows](), None
        for statement, name in steps:
            result = self._next()
            if result.status == pq.ExecStatus.FATAL_ERROR:
                failed = failed or error_from_result(result)
            elif result.status == pq.ExecStatus.PIPELINE_ABORTED:
                continue
            elif name:
                self._names[statement] = name
            else:
                found.append(_rows(result))
        while self._next().status != pq.ExecStatus.PIPELINE_SYNC:
            pass
        return found, failed

    def _next(self) -> Any:
        """The server's next word. Other threads go on meanwhile."""
        pgconn = self.db.pgconn
        while True:
            if pgconn.is_busy() or pgconn.flush():
                self._wait()
            elif (result := pgconn.get_result()) is not None:
                return result
            elif pgconn.status != pq.ConnStatus.OK:
                raise psycopg.OperationalError("the server closed the connection")

    def _wait(self) -> None:
        pgconn, poll = self.db.pgconn, select.poll()
        is_sending = select.POLLOUT if pgconn.flush() else 0
        poll.register(pgconn.socket, select.POLLIN | is_sending)
        poll.poll()
        pgconn.consume_input()


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
