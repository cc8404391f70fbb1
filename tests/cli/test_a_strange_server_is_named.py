"""Whatever answers: the token goes to one place, nothing is believed, and what is true is said."""

import json
import shutil
import subprocess
from collections.abc import Generator
from pathlib import Path

import pytest

from pullcord.client.http import Client
from pullcord.client.server_address import address
from pullcord.core.states import RunState
from tests.cli.serving import Abroad, Serving, serve
from tests.cli.strange_servers import Reply, answer, strange, strange_tls
from tests.cli.terminal import Said, Terminal

TOKEN = "t0k3n-that-nobody-may-see"
FOUND = answer("200 OK", "application/json", '{"runs":["r1"]}')
ACK = answer("200 OK", "application/json", '{"verdict":"applied","seq":3,"state":"paused"}')


@pytest.fixture
def pullcord(tmp_path: Path) -> Terminal:
    made = Terminal(tmp_path)
    made.env.pop("PULLCORD_STORE")
    made.env |= {"PULLCORD_TOKEN": TOKEN, "HOME": str(tmp_path)}
    made.folder = tmp_path
    return made


def problem(status: str, code: str, detail: str) -> bytes:
    said = {"type": "about:blank", "title": "", "status": int(status[:3])}
    body = json.dumps(said | {"detail": detail, "code": code})
    return answer(status, "application/problem+json", body)


HTML = "<html><body>Bad gateway \x1b[31mred</body></html>"
STRANGE: dict[str, tuple[Reply, int, str]] = {
    "a proxy's page": (answer("502 Bad Gateway", "text/html", HTML), 1, "answered with 502"),
    "a login page": (answer("200 OK", "text/html", HTML), 1, "'text/html'"),
    "another kind of server": (answer("200 OK", "application/json", '["hi"]'), 1, "this version"),
    "no problem of ours": (answer("404 Not Found", "application/json", "{}"), 1, "404"),
    "a broken problem": (answer("500 X", "application/problem+json", "{"), 1, "500"),
    "a redirect": (
        answer("302 Found", "text/html", "", "Location: https://evil.example/"),
        1,
        "sends us on to 'https://evil.example/'. That is not followed",
    ),
    "a huge answer": (
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        1,
        "more than 64 MiB",
    ),
    "an endless head": (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 20_000, 1, "too much"),
    "no http": (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", 1, "does not speak HTTP"),
    "chunks that are none": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        1,
        "nobody can read",
    ),
    "our fault": (problem("500 X", "internal", "Something is wrong here."), 1, "wrong here."),
    "not now": (problem("503 X", "storage_failed", "The disk is full."), 1, "The disk is full."),
    "too many": (problem("429 X", "too_many_readers", "4,000 readers."), 1, "4,000 readers."),
    "wrong token": (problem("401 X", "unknown", "This needs a credential."), 1, "a credential."),
    "not allowed": (problem("403 X", "right", "This needs the right."), 1, "the right."),
    "not an id": (problem("400 X", "invalid_id", "That is no id."), 2, "That is no id."),
    "busy": (problem("409 X", "thread_busy", "A run is living."), 3, "A run is living."),
    "colours": (problem("422 X", "new_kind", "\x1b]52;c;aGk=\x07 \x9b31m Cannot."), 2, "Cannot."),
    "an id that is none": (
        answer("200 OK", "application/json", '{"runs":["\\u001b[31m"]}'),
        2,
        "is not a run id",
    ),
    "an error we lack": (problem("422 X", "new_kind", "Cannot be."), 2, "Cannot be."),
}


@pytest.mark.parametrize("what", STRANGE)
def test_it_is_said_and_has_its_exit_status(pullcord: Terminal, what: str) -> None:
    reply, status, says = STRANGE[what]
    with strange(reply) as server:
        said = pullcord("show", "r1", "--server", server.url)
        assert (said.status, says in said.err) == (status, True), said
        assert ("\x1b" in said.err, said.out) == (False, "")
        as_json = pullcord("show", "r1", "--server", server.url, "--json")
    assert (as_json.status, as_json.err) == (status, "")
    assert says in as_json.json["message"]
    assert as_json.json["error"]
    for words in (said, as_json):
        assert TOKEN not in words.out + words.err


def test_a_lost_connection_is_tried_again_with_the_same_key(pullcord: Terminal) -> None:
    with strange(FOUND, lambda _: None, lambda _: None, ACK) as server:
        said = pullcord("pause", "r1", "--server", server.url)
        asked = [request for request in server.asked if request.startswith(b"POST")]
    assert (said.status, said.out) == (0, "Paused r1.\n")
    bodies = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in asked]
    assert len(asked) == 3
    [key] = {body["key"] for body in bodies}
    assert len(key) == 16


def test_without_any_answer_it_says_what_may_be_true(pullcord: Terminal) -> None:
    with strange(FOUND, lambda _: None) as server:
        said = pullcord("pause", "r1", "--server", server.url)
    assert said.status == 1
    assert "No answer from" in said.err
    assert "it may have been done: look before you try again" in said.err
    gone = pullcord("ps", "--server", server.url)
    assert (gone.status, "Runs go on as they are" in gone.err) == (1, True)


def test_a_start_without_an_answer_is_looked_for_and_not_started_twice(pullcord: Terminal) -> None:
    shown = answer("200 OK", "application/json", '{"panel":{"state":"running","driven":true}}')
    started: list[bytes] = []

    def start(request: bytes) -> None:
        started.append(request)

    with strange(start, shown, FOUND) as server:
        pullcord("run", "quick", "--run-id", "r1", "--server", server.url)
        posts = [request for request in server.asked if request.startswith(b"POST")]
    assert len(posts) == len(started) == 1


def test_credentials_go_to_the_named_server_and_never_over_an_open_line(
    pullcord: Terminal,
) -> None:
    def refused(*words: str) -> Said:
        said = pullcord("ps", *words)
        assert said.status == 2, said
        assert TOKEN not in said.err + said.out
        return said

    assert "would show your token" in refused("--server", "http://example.com").err
    assert "would show your token" in refused("--server", "http://127.0.0.1.evil.example").err
    assert "no name or password" in refused("--server", f"https://ana:{TOKEN}@host").err
    link = refused("--server", "http://127.0.0.1:1/#launch=abc").err
    assert ("link for a browser" in link, "abc" in link) == (True, False)
    for url in ("example.com", "ftp://x", "http://", "http://h:0", "http://h:x", "https://a b"):
        assert "is not the address" in refused("--server", url).err
    assert "two places" in refused("--server", "http://127.0.0.1:1", "--store", "x.db").err


def test_a_token_is_needed_and_never_shown(pullcord: Terminal, tmp_path: Path) -> None:
    del pullcord.env["PULLCORD_TOKEN"]
    there = ("--server", "http://127.0.0.1:1")
    assert "wants to know who asks" in pullcord("ps", *there).err
    secret = tmp_path / "token"
    secret.write_text(f"{TOKEN} {TOKEN}\n")
    said = pullcord("ps", *there, "--token-file", str(secret))
    assert (said.status, "is not a token" in said.err, TOKEN in said.err) == (2, True, False)
    assert "No such file" in pullcord("ps", *there, "--token-file", "nowhere").err
    secret.write_text(f"{TOKEN}\n")
    with strange(answer("200 OK", "application/json", '{"runs":[]}')) as server:
        assert pullcord("ps", "--server", server.url, "--token-file", str(secret)).status == 0
        assert f"Authorization: Bearer {TOKEN}\r\n".encode() in server.asked[0]


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    with serve(tmp_path_factory.mktemp("real")) as made:
        yield made


def test_a_token_that_is_wrong_or_taken_back_opens_nothing(serving: Serving) -> None:
    good = dict(serving.abroad.env)
    serving.abroad.env["PULLCORD_TOKEN"] = "nonsense"
    wrong = serving("ps")
    assert (wrong.status, "credential that is valid" in wrong.err) == (1, True)
    serving.abroad.env["PULLCORD_TOKEN"] = serving.token("control", "--days", "0.00000001")
    assert serving("ps").status == 1
    serving.abroad.env["PULLCORD_TOKEN"] = serving.token("view")
    serving.here("run", str(Path(__file__).with_name("agents.py")) + ":quick", "--run-id", "v1")
    assert serving("show", "v1").status == 0
    seen = serving("cancel", "v1")
    assert (seen.status, "needs the right to stop" in seen.err) == (1, True)
    serving.abroad.env |= good


def test_a_watch_that_is_cut_off_goes_on_where_it_was(pullcord: Terminal) -> None:
    panel = (
        '{"panel":{"run":"r1","agent":"a","thread":"r1","parent":null,"seq":1,"state":"running",'
        '"sign":"","label":"","says":"","ended":false,"at_ms":0,"created_at_ms":0,'
        '"updated_at_ms":0,"doing":"","by":"","reason":"","source":"","hold_left_ms":null,'
        '"times":{},"ticking":"","steps":0,"items":null,"meters":[],"cost":{},"next":null,'
        '"told":[],"buttons":[],"wants":0,"attention":0,"raise":[],"tally":{},"error":"",'
        '"driven":true,"alone":"","still":"","quarantined":false}}'
    )

    def told(seq: int, event: str) -> bytes:
        said = f'{{"seq":{seq},"at_ms":0,"epoch":1,"event":{event}}}'
        body = f"retry: 500\n\nid: {seq}\nevent: record\ndata: {said}\n\n"
        head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        return (head + body).encode()

    created = told(1, '{"type":"created","agent":"a","thread":"r1"}')
    completed = told(2, '{"type":"completed","result":7}')
    shown = answer("200 OK", "application/json", panel)
    with strange(FOUND, shown, shown, created, completed) as server:
        said = pullcord("watch", "r1", "--server", server.url, "--json")
        asked = [request.split()[1] for request in server.asked if b"/events" in request]
    assert said.status == 0, said
    assert [json.loads(line)["id"] for line in said.out.splitlines()] == ["1", "2"]
    assert asked == [b"/runs/r1/events?only=&after=0", b"/runs/r1/events?only=&after=1"]


def test_a_watch_whose_right_is_taken_back_ends_and_says_so(serving: Serving) -> None:
    token = serving.here("grant", "guest", "--right", "view", "--json").json
    admin = Client(address(serving.url, insecure=False), serving.token("admin"))
    watching = Abroad(serving.folder, serving.url, token["token"])
    with serving.abroad.running("run", "planned", "--run-id", "w1"):
        serving.here.reached(RunState.WAITING, run_id="w1")
        with watching.running("watch", "w1") as process:
            assert process.stdout
            assert process.stdout.readline()
            admin.ask("POST", f"/grants/{token['id']}/revoke", b"{}", again=False)
            _, err = process.communicate(timeout=60)
    admin.close()
    assert (process.returncode, "your right was taken back" in err) == (1, True), err


@pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl to make certificates with")
def test_https_is_checked_and_nothing_is_sent_before(tmp_path: Path, pullcord: Terminal) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "1",
        "-subj",
        "/CN=localhost",
    ]
    words += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(words, check=True, capture_output=True)
    with strange_tls(key, cert) as (port, seen):
        said = pullcord("ps", "--server", f"https://localhost:{port}")
        assert (said.status, "cannot show that it is who it says" in said.err) == (1, True)
        assert seen == []
        pullcord.env["SSL_CERT_FILE"] = str(cert)
        assert pullcord("ps", "--server", f"https://localhost:{port}").status == 0
        other = pullcord("ps", "--server", f"https://127.0.0.1:{port}")  # not the name it has
        assert other.status == 1
    assert len(seen) == 1
