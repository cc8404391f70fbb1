"""Whatever is sent: a precise 4xx, nothing changed, and the next request is answered."""

import asyncio
import json
import select
import socket
import struct
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import pytest

import pullcord
from pullcord import Context, RunHandle, RunState
from pullcord.core.events import Cancelled, CancelRequested, QuestionAsked, Redirected, StepStarted
from pullcord.server.bounds import Bounds
from tests.runs.observed_runs import happened, names, seen
from tests.server.http import Answer, answer_of, parsed, request_bytes
from tests.server.running_server import BOUND_S, RunningServer, running_server

MIB: Final = 1024 * 1024


@pullcord.tool(approve="always")
async def pay(amount: int) -> str:
    return f"paid {amount}"


async def asks(ctx: Context, given: Any) -> Any:
    return await ctx.ask("Which one?")


async def pays(ctx: Context) -> Any:
    return await ctx.tool(pay, 100)


async def ends(ctx: Context) -> str:
    return "done"


async def counts(ctx: Context) -> None:
    for number in range(10):
        await ctx.step(f"step {number}", said, number)


async def said(value: Any) -> Any:
    return value


@pytest.fixture
async def there(tmp_path: Path) -> AsyncGenerator[RunningServer]:
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, asks=asks, pays=pays, ends=ends, counts=counts) as made,
    ):
        yield made


@pytest.fixture
async def hasty(tmp_path: Path) -> AsyncGenerator[RunningServer]:
    """A server that waits for nobody."""
    bounds = Bounds(head_s=0.3, body_s=0.3, whole_s=1, stall_s=0.3, beat_s=0.1)
    async with asyncio.timeout(BOUND_S), running_server(tmp_path, bounds=bounds, asks=asks) as made:
        yield made


async def waiting(there: RunningServer, agent: str = "asks") -> RunHandle:
    run = await there.start(agent)
    await run.wait_for(RunState.WAITING)
    return run


async def refused(there: RunningServer, sent: bytes, *statuses: int) -> Answer:
    """It is, with one of these; nothing has changed; and the server is well."""
    before = await there.kept()
    answer = await there.raw(sent)
    assert answer.status in statuses, (sent[:200], answer)
    assert answer.header("content-type") == "application/problem+json", answer
    assert answer.json["status"] == answer.status
    assert answer.json["detail"]
    assert await there.kept() == before
    await there.is_well()
    return answer


def head(there: RunningServer, target: str, *lines: str, method: str = "POST") -> bytes:
    """The head of a request by somebody who may do everything, with more lines."""
    known = [f"{name}: {value}" for name, value in there.headers().items()]
    marks = ["Content-Type: application/json", "X-Pullcord: 1"]
    return "\r\n".join([f"{method} {target} HTTP/1.1", *known, *marks, *lines, "", ""]).encode()


# --- framing --------------------------------------------------------------------------------------


async def test_a_body_whose_length_can_be_read_in_two_ways_is_not_read(
    there: RunningServer,
) -> None:
    run = await waiting(there)
    for lines in (
        ["Content-Length: 2", "Content-Length: 3"],
        ["Content-Length: 2, 3"],
        ["Content-Length: -2"],
        ["Content-Length: +2"],
        ["Content-Length: 0x2"],
        ["Content-Length: 2 2"],
        [f"Content-Length: {'9' * 5000}"],
        ["Content-Length: ²"],
        ["Content-Length: 2", "Transfer-Encoding: chunked"],
        ["Transfer-Encoding: chunked", "Content-Length: 2"],
        ["Transfer-Encoding: gzip, chunked", "Content-Length: 2"],
        ["Transfer-Encoding: chunked, identity"],
        ["Transfer-Encoding: x"],
        ["Transfer-Encoding : chunked"],
        ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
        ["Content-Length: 2", "X-Thing: a\x00b"],
        ["Content-Length: 2", ": nameless"],
        ["Content-Length: 2", "no colon"],
        ["Content-Length: 2", f"X-Long: {'x' * 20_000}"],
        ["Content-Length: 2", *(f"X-{n}: 1" for n in range(2_000))],
    ):
        sent = head(there, f"/runs/{run.id}/cancel", *lines)
        await refused(there, sent + b"{}", 400, 413, 415, 431, 501)


async def test_what_is_no_request_gets_an_answer_all_the_same(there: RunningServer) -> None:
    host = f"Host: {there.name}\r\n".encode()
    for sent in (
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(200) + b"\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET /me\r\n" + host + b"\r\n",
        b"GET /me HTTP/9.9\r\n" + host + b"\r\n",
        b"GET  /me HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /m\xc3\xa9 HTTP/1.1\r\n" + host + b"\r\n",
        b"GE\x00T /me HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /me HTTP/1.1\r\n folded: 1\r\n" + host + b"\r\n",
        b"GET /me HTTP/1.1\r\nHost: \r\n\r\n",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + host + b"\r\n",
        b"GET /runs?" + b"a=1&" * 1_000_000 + b" HTTP/1.1\r\n" + host + b"\r\n",
        b"OPTIONS * HTTP/1.1\r\n" + host + b"\r\n",
        b"CONNECT evil.example:80 HTTP/1.1\r\n" + host + b"\r\n",
        b"GET http://evil.example/me HTTP/1.1\r\n" + host + b"\r\n",
        b"GET evil HTTP/1.1\r\n" + host + b"\r\n",
    ):
        await refused(there, sent, 400, 401, 403, 405, 431)


async def test_who_goes_on_sending_has_the_answer_and_no_reset(there: RunningServer) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", there.port)
    writer.write(b"GET\r\n\r\n")
    answer = await answer_of(reader)
    assert answer.json["code"] == "malformed"
    for _ in range(20):
        writer.write(bytes(MIB))  # a reset comes as an error of what is written, or of the end
        await writer.drain()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_folded_lines_and_bare_newlines_smuggle_nothing(there: RunningServer) -> None:
    """Such lines may be read (RFC 9112 §2.2, §5.2), but then as what they are: one request."""
    run = await waiting(there)
    before = await there.kept()
    inner = head(there, f"/runs/{run.id}/cancel", "Content-Length: 2") + b"{}"
    outer = head(there, "/me", f"Content-Length: {len(inner)}", method="GET") + inner
    assert (await there.raw(outer.replace(b"\r\n", b"\n"))).status in (200, 400)
    assert (await there.raw(outer)).status == 200
    folded = outer.replace(b"X-Pullcord: 1", b"X-Pullcord:\r\n 1\r\n Content-Length: 0", 1)
    assert (await there.raw(folded)).status in (200, 400)
    assert await there.kept() == before
    await there.is_well()


async def test_chunks_that_cannot_be_read_are_not_acted_upon(there: RunningServer) -> None:
    run = await waiting(there)
    start = head(there, f"/runs/{run.id}/cancel", "Transfer-Encoding: chunked")
    for chunks in (
        b"2\r\n{}\r\nzz\r\n\r\n",
        b"-2\r\n{}\r\n0\r\n\r\n",
        b"2\r\n{}xx0\r\n\r\n",
    ):
        before = await there.kept()
        answer = await there.raw(start + chunks)
        assert answer.status in (0, 400, 413, 431), (chunks[:40], answer)
        assert await there.kept() == before
        await there.is_well()
    answer = await there.raw(start + b"1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n")
    assert answer.json["verdict"] == "applied"


# --- bodies ---------------------------------------------------------------------------------------

DEEP: Final = b"[" * 400_000


async def test_a_body_that_is_not_what_it_should_be_is_refused(there: RunningServer) -> None:
    run = await waiting(there)
    for body, status in (
        (b"", 400),
        (b"null", 400),
        (b"[]", 400),
        (b'"pause"', 400),
        (b"{", 400),
        (b"{}{}", 400),
        (b"{'now': true}", 400),
        (b'{"now": true,}', 400),
        (b"\xef\xbb\xbf{}", 400),
        ("{}".encode("utf-16"), 400),
        ("{}".encode("utf-32"), 400),
        (b'{"reason": "\xff\xfe"}', 400),
        (b'{"reason": "\xed\xa0\x80"}', 400),
        (b'{"reason": "\\ud800"}', 400),
        (b'{"reason": "a\\u0000b"}', 422),
        (b'{"reason": "a\nb"}', 400),
        (b'{"reason": "a", "reason": "b"}', 400),
        (b'{"reason": "a", "\\u0072eason": "b"}', 400),
        (b'{"key": NaN}', 400),
        (b'{"seen_seq": Infinity}', 400),
        (b'{"seen_seq": 1e400}', 400),
        (b'{"seen_seq": -1}', 422),
        (b'{"seen_seq": 1.5}', 422),
        (b'{"seen_seq": ' + b"9" * 10_000 + b"}", 400),
        (b'{"seen_seq": ' + b"9" * 100 + b"}", 422),
        (b'{"seen_seq": true}', 422),
        (b'{"now": "yes"}', 422),
        (b'{"now": 1}', 422),
        (b'{"now": null}', 422),
        (b'{"__proto__": {"now": true}}', 422),
        (b'{"constructor": 1}', 422),
        (b'{"undo": true}', 422),
        (b'{"key": ""}', 422),
        (b'{"key": "' + b"k" * 10_000 + b'"}', 422),
        (b'{"key": "a\\u0000"}', 422),
        (b'{"reason": ' + DEEP + b"}", 400),
        (b'{"x": ' + b'{"x":' * 100 + b"1" + b"}" * 101, 400),
        (b'{"reason": "' + b"x" * MIB + b'"}', 413),
    ):
        sent = head(there, f"/runs/{run.id}/pause", f"Content-Length: {len(body)}") + body
        await refused(there, sent, status)


async def test_what_cannot_be_started_is_not(there: RunningServer) -> None:
    for said in (
        {"agent": "nobody"},
        {"agent": ""},
        {"agent": "../asks"},
        {"agent": "asks\0"},
        {"agent": "asks", "thread": "../x"},
        {"agent": "asks", "thread": "x" * 65},
        {"agent": "asks", "if_busy": "force"},
        {"agent": "asks", "limits": {"steps": -1}},
        {"agent": "asks", "limits": {"wishes": 3}},
        {"agent": "asks", "limits": {"steps": 0.5}},
        {"agent": "asks", "limits": {"tool_calls": 1.5}},
        {"agent": "asks", "limits": {"tokens": 1e-300}},
        {"agent": "asks", "model": "\0"},
        {"agent": "asks", "model": "x\ny\u202e"},
        {"agent": "asks", "limits": {"steps": "many"}},
        {"agent": "asks", "limits": [["steps", 3]]},
        {"agent": "asks", "on_exhausted": "explode"},
        {"agent": "asks", "input": 2**64},
        {"agent": "asks", "by": "somebody else"},
        {"agent": "asks", "run_id": "../mine"},
        {"agent": ["asks"]},
        {},
    ):
        body = json.dumps(said).encode()
        await refused(there, head(there, "/runs", f"Content-Length: {len(body)}") + body, 422)


async def test_a_body_of_another_kind_is_refused_by_its_name(there: RunningServer) -> None:
    run = await waiting(there)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""):
        sent = head(there, f"/runs/{run.id}/pause", "Content-Length: 2") + b"{}"
        lines = b"Content-Type: " + kind.encode()
        await refused(there, sent.replace(b"Content-Type: application/json", lines), 415)
    for kind in ("application/json; charset=utf-16", "application/json; charset=latin-1"):
        sent = head(there, f"/runs/{run.id}/pause", "Content-Length: 2") + b"{}"
        await refused(there, sent.replace(b"application/json", kind.encode()), 415)
    good = head(there, f"/runs/{run.id}/pause", "Content-Length: 2") + b"{}"
    good = good.replace(b"application/json", b"Application/JSON; charset=UTF-8")
    assert (await there.raw(good)).status == 200


# --- places ---------------------------------------------------------------------------------------


async def test_a_run_that_is_none_is_not_there(there: RunningServer) -> None:
    ended = await there.start("ends")
    await ended.result()
    for run, status in (
        ("nowhere", 404),
        ("..", 400),
        ("%2e%2e", 400),
        ("..%2f..%2fetc%2fpasswd", 404),
        ("..%5c..%5cetc", 400),
        ("a%00b", 400),
        ("a%0ab", 400),
        ("%ff", 400),
        ("x" * 65, 400),
        ("x" * 10_000, 400),
        ("%F0%9F%92%A5", 400),
        ("a%20b", 400),
        ("'%20OR%201=1--", 400),
    ):
        for sent in (
            head(there, f"/runs/{run}", method="GET"),
            head(there, f"/runs/{run}/events", method="GET"),
            head(there, f"/runs/{run}/records", method="GET"),
            head(there, f"/runs/{run}/cancel", "Content-Length: 2") + b"{}",
            head(there, f"/runs/{run}/fork", "Content-Length: 2") + b"{}",
        ):
            await refused(there, sent, status, 400, 404)
    before = await there.kept()
    answer = await there.post(f"/runs/{ended.id}/pause")
    assert (answer.status, answer.json["ack"]["verdict"]) == (409, "too_late")
    assert await there.kept() == before


async def test_a_place_in_a_stream_that_is_none_is_refused(there: RunningServer) -> None:
    run = await waiting(there)
    long = await there.start("counts")
    await long.result()
    of_another = (await long.snapshot()).seq
    for place in (
        "-1", "1e3", "1.2.3", "1.", "x", " ", "0x1", "9" * 15, "9" * 400, "now.1", "1,2", "١",
        str(of_another), f"{of_another}.5", "1.7", "0.99", "NaN", "null",
        "undefined", "1;2", "1%00",
    ):  # fmt: skip
        named = place.encode().decode("latin-1")
        sent = head(there, f"/runs/{run.id}/events", f"Last-Event-ID: {named}", method="GET")
        if place.strip() and place not in ("1.",):
            await refused(there, sent, 400)
        if place not in (" ", "1,2", "1;2", "١", "1."):
            sent = head(there, f"/runs/{run.id}/events?after={place}", method="GET")
            await refused(there, sent, 400)
    for query in ("after=-1", "after=x", "limit=0", "limit=1001", "limit=x", "after=" + "9" * 30):
        await refused(there, head(there, f"/runs/{run.id}/records?{query}", method="GET"), 400)
    for query in ("limit=0", "limit=101", "state=dead", "state=", "thread=../x", "before=%00"):
        await refused(there, head(there, f"/runs?{query}", method="GET"), 400)
    await refused(there, head(there, f"/runs/{run.id}/events?only=all", method="GET"), 400)
    await refused(there, head(there, "/events?run=nowhere", method="GET"), 404)
    await refused(there, head(there, "/events?run=../x", method="GET"), 400)


async def test_very_many_words_in_a_query_are_too_many(there: RunningServer) -> None:
    query = "&".join(f"a{n}=1" for n in range(1_000_000))
    await refused(there, head(there, f"/runs?{query}", method="GET"), 431)
    few = "&".join(f"a{n}=1" for n in range(1_000))
    assert (await there.raw(head(there, f"/runs?{few}", method="GET"))).status == 200


async def test_parts_of_a_file_cannot_be_asked_for(there: RunningServer) -> None:
    parts = ",".join(f"{n}-{n}" for n in range(1_500))
    whole = await there.raw(head(there, "/page.js", f"Range: bytes={parts}", method="GET"))
    assert whole.status == 200
    many = ",".join(f"{n}-{n}" for n in range(100_000))
    await refused(there, head(there, "/page.js", f"Range: bytes={many}", method="GET"), 431)


async def test_an_upgrade_to_a_websocket_is_not_one(there: RunningServer) -> None:
    run = await waiting(there)
    lines = [
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version: 13",
    ]
    before = await there.kept()
    for path in (f"/runs/{run.id}/events", "/me", "/nothing"):
        assert (await there.raw(head(there, path, *lines, method="GET"))).status in (200, 404)
        nobody = ["GET " + path + " HTTP/1.1", f"Host: {there.name}", *lines, "", ""]
        assert (await there.raw("\r\n".join(nobody).encode())).status == 401
    assert await there.kept() == before
    await there.is_well()


# --- slow ones ------------------------------------------------------------------------------------


async def opened(there: RunningServer) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", there.port)


async def test_a_head_that_never_ends_is_not_waited_for(hasty: RunningServer) -> None:
    for start in (b"", b"GET /me HT", b"GET /me HTTP/1.1\r\nHost: x\r\nX-A"):
        reader, writer = await opened(hasty)
        writer.write(start)
        assert await gone(reader)
        writer.close()
    reader, writer = await opened(hasty)
    dripping = asyncio.create_task(drip(writer, b"GET /me HTTP/1.1\r\n" + b"X-A: b\r\n" * 1000))
    assert await gone(reader)
    dripping.cancel()
    writer.close()
    await hasty.is_well()


async def test_a_body_that_never_comes_is_not_waited_for(hasty: RunningServer) -> None:
    run = await waiting(hasty)
    before = await hasty.kept()
    for length in ("Content-Length: 2", "Transfer-Encoding: chunked"):
        start = head(hasty, f"/runs/{run.id}/pause", length)
        answer = await hasty.raw(start)
        assert (answer.status, answer.json["code"]) == (408, "too_slow")
    reader, writer = await opened(hasty)
    writer.write(head(hasty, f"/runs/{run.id}/pause", "Content-Length: 100000"))
    dripping = asyncio.create_task(drip(writer, b" " * 100_000))
    assert (await answer_of(reader)).status == 408  # it came all the time, but not soon enough
    dripping.cancel()
    writer.close()
    assert await hasty.kept() == before
    await hasty.is_well()


async def test_who_goes_on_sending_a_body_that_was_answered_is_not_listened_to_for_long(
    hasty: RunningServer,
) -> None:
    """The page takes no body: whoever sends one all the same, a byte at a time, is cut off."""
    reader, writer = await opened(hasty)
    lines = f"GET / HTTP/1.1\r\nHost: {hasty.name}\r\nContent-Length: 1000000\r\n\r\n"
    writer.write(lines.encode())
    assert (await answer_of(reader)).status == 200
    dripping = asyncio.create_task(drip(writer, b" " * 1_000_000))
    assert await gone(reader)
    dripping.cancel()
    writer.close()
    await hasty.is_well()


async def test_who_never_takes_an_answer_is_cut_off(hasty: RunningServer) -> None:
    """Also where what it does not take is no stream: its place is for somebody else."""
    run = await hasty.start("asks", input="x" * 8 * MIB)
    await run.wait_for(RunState.WAITING)
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, ("127.0.0.1", hasty.port))
    await loop.sock_sendall(made, head(hasty, f"/runs/{run.id}/records", method="GET"))
    hung_up = select.poll()
    hung_up.register(made, 0)
    while not hung_up.poll(0):
        await hasty.is_well()
    made.close()


async def test_who_takes_a_long_answer_slowly_has_all_of_it(tmp_path: Path) -> None:
    bounds = Bounds(head_s=0.1, stall_s=10)
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=bounds, asks=asks) as there,
    ):
        run = await there.start("asks", input="x" * 4 * MIB)
        await run.wait_for(RunState.WAITING)
        reader, writer = await asyncio.open_connection("127.0.0.1", there.port, limit=MIB)
        writer.write(head(there, f"/runs/{run.id}/records", method="GET"))
        length = int(parsed(await reader.readuntil(b"\r\n\r\n"))[1][0][1])
        taken = 0
        while taken < length:
            taken += len(await reader.readexactly(min(MIB, length - taken)))
            for _ in range(20):
                await there.is_well()  # meanwhile
        writer.close()


async def test_an_endless_body_is_too_long(there: RunningServer) -> None:
    run = await waiting(there)
    before = await there.kept()
    announced = head(there, f"/runs/{run.id}/pause", f"Content-Length: {1024 * MIB}")
    assert (await there.raw(announced)).status == 413
    reader, writer = await opened(there)
    writer.write(head(there, f"/runs/{run.id}/pause", "Transfer-Encoding: chunked"))
    flooding = asyncio.create_task(flood(writer))
    assert (await answer_of(reader)).status in (413, 0)  # 0: cut off while it was being written to
    flooding.cancel()
    writer.close()
    assert await there.kept() == before
    await there.is_well()


async def test_a_body_shorter_than_was_said_is_not_acted_upon(there: RunningServer) -> None:
    run = await waiting(there)
    before = await there.kept()
    sent = head(there, f"/runs/{run.id}/cancel", "Content-Length: 20") + b"{}"
    assert (await there.raw(sent, half_close=True)).status in (0, 400)
    assert await there.kept() == before
    longer = (
        head(there, f"/runs/{run.id}/pause", "Content-Length: 2") + b"{}GET /x HTTP/1.1\r\n\r\n"
    )
    assert (await there.raw(longer)).json["verdict"] == "applied"
    await there.is_well()


async def drip(writer: asyncio.StreamWriter, text: bytes) -> None:
    for at in range(len(text)):
        if writer.transport.is_closing():
            return
        writer.write(text[at : at + 1])
        await asyncio.sleep(0.05)


async def flood(writer: asyncio.StreamWriter) -> None:
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    try:
        while True:
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        pass  # nobody listens any more


async def gone(reader: asyncio.StreamReader) -> bool:
    """Wait until the connection is closed; whether nothing but a refusal came before."""
    try:
        said = await reader.read(-1)
    except ConnectionError:
        return True
    return b" 200 " not in said.partition(b"\r\n")[0]


# --- lost connections and keys --------------------------------------------------------------------


async def test_an_answer_that_was_lost_is_had_again_and_the_control_is_recorded_once(
    there: RunningServer,
) -> None:
    run = await waiting(there)
    for number in range(25):
        said = {"instruction": f"number {number}", "key": f"press-{number}"}
        body = json.dumps(said).encode()
        sent = head(there, f"/runs/{run.id}/redirect", f"Content-Length: {len(body)}") + body
        reset(there.port, sent)
        answers = await asyncio.gather(
            *(there.post(f"/runs/{run.id}/redirect", said) for _ in range(3))
        )
        assert {answer.status for answer in answers} == {200}
        assert len({answer.json["seq"] for answer in answers}) == 1
    told = await happened(there.runtime, run.id, Redirected)
    assert [event.instruction for event in told] == [f"number {n}" for n in range(25)]


def reset(port: int, sent: bytes) -> None:
    """Send it and hang up at once, without a word."""
    made = socket.create_connection(("127.0.0.1", port))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    made.sendall(sent)
    made.close()


async def test_a_half_closed_connection_is_answered_or_its_control_can_be_sent_again(
    there: RunningServer,
) -> None:
    run = await waiting(there)
    said = {"instruction": "left", "key": "once"}
    body = json.dumps(said).encode()
    sent = head(there, f"/runs/{run.id}/redirect", f"Content-Length: {len(body)}") + body
    first = await there.raw(sent, half_close=True)
    assert first.status in (0, 200)
    assert (await there.post(f"/runs/{run.id}/redirect", said)).status == 200
    assert len(await happened(there.runtime, run.id, Redirected)) == 1


async def test_a_key_is_for_one_thing(there: RunningServer) -> None:
    run = await waiting(there)
    path = f"/runs/{run.id}"
    assert (await there.post(f"{path}/redirect", {"instruction": "a", "key": "k"})).status == 200
    for verb, said in (("redirect", {"instruction": "b"}), ("cancel", {}), ("pause", {})):
        answer = await there.post(f"{path}/{verb}", {**said, "key": "k"})
        assert (answer.status, answer.json["ack"]["reason"]) == (409, "key_reused")
    assert [e.instruction for e in await happened(there.runtime, run.id, Redirected)] == ["a"]


# --- controls that meet ---------------------------------------------------------------------------


async def card(there: RunningServer) -> tuple[RunHandle, QuestionAsked]:
    run = await there.start("pays")
    asked = await seen(run, QuestionAsked)
    await run.wait_for(RunState.WAITING)
    return run, asked


async def test_a_thousand_cancels_at_once_are_one(there: RunningServer) -> None:
    run = await waiting(there)
    gate = asyncio.Semaphore(200)

    async def press() -> Answer:
        async with gate:
            return await there.post(f"/runs/{run.id}/cancel", {})

    answers = await asyncio.gather(*(press() for _ in range(1_000)))
    verdicts = [answer.json["verdict"] for answer in answers if answer.status == 200]
    assert verdicts.count("applied") == 1
    assert {answer.status for answer in answers} <= {200, 409}
    assert len(await happened(there.runtime, run.id, CancelRequested)) == 1
    assert len(await happened(there.runtime, run.id, Cancelled)) == 1


async def test_of_two_controls_in_one_tick_each_is_answered_truly(there: RunningServer) -> None:
    for _ in range(20):
        run = await waiting(there)
        paused, cancelled = await asyncio.gather(
            there.post(f"/runs/{run.id}/pause"), there.post(f"/runs/{run.id}/cancel")
        )
        assert cancelled.json["verdict"] == "applied"
        told = await names(there.runtime, run.id)
        if paused.status == 200:
            assert told.index("pause_requested") < told.index("cancel_requested")
        else:
            assert paused.json["ack"]["verdict"] == "too_late"
            assert "pause_requested" not in told


async def test_an_approval_is_given_once_for_what_was_shown_by_whoever_was_first(
    there: RunningServer,
) -> None:
    run, asked = await card(there)
    path = f"/runs/{run.id}"
    said = {"question": asked.question, "call": asked.call}
    other = await there.post(f"{path}/approve", {**said, "call": "0" * 64})
    assert (other.status, other.json["ack"]["reason"]) == (409, "other_call")
    missing = await there.post(f"{path}/approve", {"question": asked.question})
    assert missing.status == 422
    both = await asyncio.gather(
        there.post(f"{path}/approve", said, there.token("approve")),
        there.post(f"{path}/deny", {"question": asked.question}, there.token("approve", run.id)),
    )
    assert sorted(answer.status for answer in both) == [200, 409]
    first = both[0].status == 200
    assert await run.result() == "paid 100" if first else True
    again = await there.post(f"{path}/approve", said)
    assert again.status == 409
    assert len(await happened(there.runtime, run.id, StepStarted)) == int(first)


async def test_an_approval_after_a_cancel_allows_nothing(there: RunningServer) -> None:
    run, asked = await card(there)
    said = {"question": asked.question, "call": asked.call}
    assert (await there.post(f"/runs/{run.id}/cancel")).status == 200
    late = await there.post(f"/runs/{run.id}/approve", said)
    assert (late.status, late.json["ack"]["verdict"]) == (409, "too_late")
    assert await happened(there.runtime, run.id, StepStarted) == []


async def test_changed_arguments_are_asked_about_anew(there: RunningServer) -> None:
    run, asked = await card(there)
    said = {"question": asked.question, "call": asked.call, "args": {"amount": 5}}
    assert (await there.post(f"/runs/{run.id}/approve", said)).status == 422  # that allows as it is
    assert (await there.post(f"/runs/{run.id}/edit", said | {"args": "5"})).status == 422
    assert (await there.post(f"/runs/{run.id}/edit", said)).status == 200
    anew = await seen(run, QuestionAsked, nth=2)
    assert anew.call != asked.call
    old = await there.post(
        f"/runs/{run.id}/approve", {"question": anew.question, "call": asked.call}
    )
    assert old.status == 409
    good = {"question": anew.question, "call": anew.call}
    assert (await there.post(f"/runs/{run.id}/approve", good)).status == 200
    assert await run.result() == "paid 5"


async def test_no_answer_ever_echoes_a_credential(there: RunningServer) -> None:
    secret = there.token()
    for target in (f"/{secret}", f"/runs/{secret}", "/me"):
        headers = {"Host": there.name, "Authorization": f"Bearer {secret}x"}
        answer = await there.raw(request_bytes("GET", target, headers.items()))
        assert answer.status == 401
        assert secret.encode() not in answer.body
