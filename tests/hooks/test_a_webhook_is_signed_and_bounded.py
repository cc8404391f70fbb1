"""Promise: a webhook is signed, goes nowhere else, and is sent again exactly where that can help.

Its secret is in no log, no error and no text of it; neither is anything of its URL behind the host,
nor are the arguments of a call.
"""

import asyncio
import base64
import json
import logging
import ssl
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import pullcord
from pullcord import Context, RunState, Timing
from pullcord.hooks import Moved, Notice, Webhook
from pullcord.runtime.hooks import http_post as posting_module
from pullcord.runtime.hooks.http_post import HttpPost
from pullcord.runtime.hooks.recipient import NoticeRefused, Unreached
from tests.hooks.receiver import OTHER, SECRET, Receiver
from tests.runs.observed_runs import BOUND_S

MOVED = Moved(
    run_id="r1",
    agent="churn",
    thread="t1",
    seq=4,
    event="cancel_requested",
    before="running",
    after=RunState.CANCELLING,
    working=True,
    at_ms=1,
    by="ana",
    reason="looks unsafe",
)


async def sent(*answers: Any, notice: Moved | Notice = MOVED, **how: Any) -> Receiver:
    async with asyncio.timeout(BOUND_S), Receiver(*answers) as receiver:
        given: dict[str, Any] = {"secret": SECRET, **how}
        hook = Webhook(receiver.url, **given)
        await HttpPost(hook).tell("r1.4", notice)
    return receiver


async def test_a_receiver_can_tell_whose_word_it_is() -> None:
    [got] = (await sent()).got
    assert got.line == "POST /hook HTTP/1.1"
    assert got.is_signed_with(SECRET)
    assert not got.is_signed_with(OTHER)
    assert (got.id, got.headers["content-type"]) == ("r1.4", "application/json")
    assert json.loads(got.body)["type"] == "run.moved"
    assert got.data["reason"] == "looks unsafe"


async def test_while_secrets_are_changed_both_are_good() -> None:
    [got] = (await sent(secret=[OTHER, SECRET])).got
    assert got.is_signed_with(SECRET)
    assert got.is_signed_with(OTHER)


async def test_a_secret_may_be_a_plain_text() -> None:
    plain = "correct horse battery staple"
    [got] = (await sent(secret=plain)).got
    assert got.is_signed_with("whsec_" + base64.b64encode(plain.encode()).decode())


async def test_each_attempt_has_a_time_of_its_own_and_the_same_id() -> None:
    """A receiver that refuses what is old can still take what is sent again."""
    async with asyncio.timeout(BOUND_S), Receiver() as receiver:
        hook = HttpPost(Webhook(receiver.url, SECRET))
        await hook.tell("r1.4", MOVED)
        await hook.tell("r1.4", MOVED)
    first, second = receiver.got
    assert first.id == second.id
    assert int(second.headers["webhook-timestamp"]) >= int(first.headers["webhook-timestamp"])
    assert second.is_signed_with(SECRET)


LATER = [500, 502, 503, 504, 408, 429]
NEVER = [301, 302, 307, 308, 400, 401, 403, 404, 410, 422]


@pytest.mark.parametrize("status", LATER)
async def test_what_may_be_otherwise_later_is_sent_again(status: int) -> None:
    with pytest.raises(Unreached, match=str(status)):
        await sent(status)


@pytest.mark.parametrize("status", NEVER)
async def test_what_would_be_no_otherwise_is_not_sent_again(status: int) -> None:
    with pytest.raises(NoticeRefused, match=str(status)):
        await sent(status)


async def test_a_redirect_is_not_followed() -> None:
    async with Receiver() as elsewhere:
        moved = f"HTTP/1.1 307 Moved\r\nlocation: {elsewhere.url}\r\n\r\n".encode()
        with pytest.raises(NoticeRefused):
            await sent(moved)
        assert elsewhere.got == []


@pytest.mark.parametrize(
    ("said", "wait_s"),
    [("2", 2.0), ("277403", 300.0), ("-1", 0.0), ("Wed, 21 Oct 2026 07:28:00 GMT", 0.0), ("", 0.0)],
)
async def test_a_receiver_may_ask_for_time_but_not_for_days(said: str, wait_s: float) -> None:
    answer = f"HTTP/1.1 429 Slow\r\nRetry-After: {said}\r\n\r\n".encode()
    with pytest.raises(Unreached) as unreached:
        await sent(answer)
    assert unreached.value.wait_s == wait_s


async def hang() -> None:
    await asyncio.get_running_loop().create_future()


ODD: dict[str, Any] = {
    "no answer": hang,
    "no words": b"",
    "half an answer": b"HTTP/1.1 200",
    "not HTTP": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "no status": b"HTTP/1.1 abc\r\n\r\n",
    "too much": b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 10_000 + b"\r\n",
}


@pytest.mark.parametrize("odd", ODD)
async def test_whatever_answers_is_bounded_and_means_later(odd: str) -> None:
    with pytest.raises(Unreached):
        await sent(ODD[odd], timeout_s=0.2)


async def test_a_port_at_which_nobody_is_means_later() -> None:
    async with Receiver() as receiver:
        url = receiver.url
    with pytest.raises(Unreached):
        await HttpPost(Webhook(url, SECRET)).tell("r1.4", MOVED)


async def test_a_word_before_the_answer_is_passed_over() -> None:
    await sent(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\n")


async def test_what_is_sent_is_bounded_and_has_no_arguments() -> None:
    long = Notice(
        run_id="r1",
        question="q1",
        kind="approval",
        text="x" * 100_000,
        tool="pay",
        args={"to": "bob@example.org"},
        call="ab",
    )
    [got] = (await sent(notice=long)).got
    assert json.loads(got.body)["type"] == "run.asked"
    assert len(got.body) < 2_000
    assert b"example.org" not in got.body


URLS = {
    "http://example.org/hook": "https",
    "ftp://127.0.0.1/": "https",
    "https://user:pass@example.org/": "password",
    "https://example.org/#x": "fragment",
    "https:///hook": "URL",
    "https://exa mple.org/": "URL",
    "https://example.org/\r\nx: y": "URL",
    "https://example.org:99999/": "URL",
    "http://127.0.0.1.example.org/": "https",
    "": "URL",
}


@pytest.mark.parametrize("url", URLS)
def test_a_url_that_is_not_safe_is_refused(url: str) -> None:
    with pytest.raises(pullcord.PullcordError, match=URLS[url]):
        Webhook(url, SECRET)


@pytest.mark.parametrize("url", ["http://localhost:1/x", "http://[::1]:1/", "http://127.0.0.2/"])
def test_this_machine_needs_no_tls(url: str) -> None:
    assert Webhook(url, SECRET).url == url


@pytest.mark.parametrize(
    "secret", ["", "short", "whsec_", "whsec_" + "A" * 8, "whsec_not base64!" * 3, [], [SECRET] * 3]
)
def test_a_secret_that_is_none_is_refused_and_not_repeated(secret: Any) -> None:
    with pytest.raises(pullcord.PullcordError) as refused:
        Webhook("https://example.org/", secret)
    assert "Nothing was opened" in str(refused.value)
    assert not secret or str(secret) not in str(refused.value)


async def test_the_secret_is_written_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)

    async def agent(_ctx: Context) -> None: ...

    async with asyncio.timeout(BOUND_S), Receiver(500, 404, 302) as receiver:
        hook = Webhook(f"{receiver.url}/B77/PATHTOKEN?token=hush", [SECRET, OTHER])
        async with pullcord.open(
            tmp_path / "r.db",
            agents={"agent": agent},
            timing=Timing(hook_retry_s=0.01),
            on_stop=hook,
        ) as runtime:
            await (await runtime.start("agent")).result()
            await receiver.until(lambda got: len(got) == 4)
    written = b"".join(p.read_bytes() for p in tmp_path.iterdir() if p.is_file())
    for secret in (SECRET, OTHER, "hush", "B77", "PATHTOKEN"):
        assert secret not in caplog.text
        assert secret not in hook.name
        assert secret not in repr(hook)
        assert secret.encode() not in written
    assert "is told" in caplog.text


NAMED = [
    "https://example.org/a",
    "https://example.org/b",
    "https://example.org/a?b",
    "https://example.org/a?c",
    "https://example.org:444/a",
    "http://[::1]:444/a",
]


def test_a_webhook_is_called_by_its_host_and_is_not_taken_for_another() -> None:
    names = [Webhook(url, SECRET).name for url in NAMED]
    assert len(set(names)) == len(NAMED)
    hosts = [name.partition("#")[0] for name in names]
    assert hosts == [*["https://example.org"] * 4, "https://example.org:444", "http://[::1]:444"]


def test_a_password_that_makes_a_url_unreadable_is_not_repeated() -> None:
    with pytest.raises(pullcord.PullcordError) as refused:
        Webhook("https://ana:hush/hush@example.org/", SECRET)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("more", ["", "?token=hush"])
async def test_a_place_that_was_kept_with_the_path_in_its_name_is_found(
    more: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As earlier versions did: nothing is lost or told twice, and the token is in no file."""

    async def agent(_ctx: Context) -> None: ...

    store, digest = tmp_path / "r.db", "?" + sha256(b"token=hush").hexdigest()[:8]
    async with asyncio.timeout(BOUND_S), Receiver() as receiver:
        url = f"{receiver.url}/PATHTOKEN"
        async with pullcord.open(store, agents={"agent": agent}) as runtime:
            places = runtime.journal.hooks
            for nth in ("", " (2)"):
                await places.meet(f"moved {url}{digest if more else ''}{nth}")
            await (await runtime.start("agent", run_id="r1")).result()
        twice = [Webhook(f"{url}{more}", SECRET)] * 2
        for _ in range(2):
            async with pullcord.open(store, on_stop=twice):
                await receiver.until(lambda got: len(got) >= 6)
    states = sorted(["queued", "running", "completed"] * 2)
    assert sorted(g.data["after"] for g in receiver.got) == states
    written = b"".join(p.read_bytes() for p in tmp_path.iterdir() if p.is_file())
    assert b"PATHTOKEN" not in written
    assert "PATHTOKEN" not in caplog.text


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for this machine that nobody has signed but itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    here = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(here, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    file = tmp_path / "certificate.pem"
    form = serialization.PrivateFormat.PKCS8
    file.write_bytes(key.private_bytes(pem, form, plain) + made.public_bytes(pem))
    return file


async def test_a_receiver_that_cannot_prove_who_it_is_is_told_nothing(
    certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    posting = HttpPost(Webhook(f"https://127.0.0.1:{port}/", SECRET))
    async with asyncio.timeout(BOUND_S), server:
        with pytest.raises(Unreached, match="certificate verify failed"):
            await posting.tell("r1.4", MOVED)
        assert heard == []
        trusting = ssl.create_default_context(cafile=certificate)
        monkeypatch.setattr(posting_module, "_tls", lambda: trusting)
        await posting.tell("r1.4", MOVED)
        assert len(heard) == 1
