"""No request without a valid credential, from another page or to another name, reads or changes.

Every route × who asks × which name × which page × in which way: what must come of it is worked
out here, from the promises alone, and nothing else may happen. The order of the reasons is not
promised, only that there is one.
"""

import itertools
import random
import re
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from pullcord import Context, RunState
from pullcord.server.app import FILES
from pullcord.server.rights import RIGHTS, Right
from pullcord.server.routes import ROUTES
from tests.server.http import Answer
from tests.server.running_server import COOKIE, EVIL, RunningServer, of_session, running_server
from tests.storage.campaign import FULL, fresh_seed

GUEST: Final = "http://desk.example"  # a page of another origin that may use the server
SAMPLE: Final = 400


async def asks(ctx: Context, given: Any) -> Any:
    """Waits for an answer."""
    return await ctx.ask("Which one?")


class Place(NamedTuple):
    """Something that can be asked for, and what it needs."""

    method: str
    path: str
    right: Right | None
    run: str | None = None  # the run that it is about
    narrow: bool = False  # who was given one run sees that one
    body: bytes = b""


class Who(NamedTuple):
    """A credential, and what it is good for. No right: it is none."""

    name: str
    headers: tuple[tuple[str, str], ...] = ()
    right: Right | None = None
    run: str | None = None
    query: str = ""
    cookie: bool = False


class Way(NamedTuple):
    """How it is sent: what stands in the head beside credential, host and origin."""

    name: str
    headers: tuple[tuple[str, str], ...]
    is_marked: bool = True
    is_json: bool = True


class Tried(NamedTuple):
    place: Place
    who: Who
    host: str
    origin: str
    services: str
    way: Way
    method: str


# --- what can be tried ----------------------------------------------------------------------------

BODIES: Final = {
    "/runs": b'{"agent":"asks","input":1}',
    "redirect": b'{"instruction":"go left"}',
    "answer": b'{"question":"ask-1","value":1}',
    "approve": b'{"question":"ask-1","call":"abc"}',
    "edit": b'{"question":"ask-1","call":"abc","args":{}}',
    "deny": b'{"question":"ask-1"}',
    "settle": b'{"item":"item-1"}',
    "raise": b'{"caps":{"steps":5000}}',
    "signal": b'{"name":"door"}',
    "rename": b'{"title":"mine"}',
    "aside": b'{"question":"Why?"}',
    "/session": b'{"code":"wrong"}',
    "/grants": b'{"kind":"token","right":"admin","expires_in_s":60}',
}
HOSTS: Final = (
    "own",
    "evil",
    "own.evil",
    "own with a dot",
    "other port",
    "no port",
    "zeros",
    "v6",
    "v6 mapped",
    "user",
    "upper",
    "none",
    "two",
    "empty",
    "absolute own",
    "absolute evil",
)
ORIGINS: Final = (
    "absent",
    "own",
    "evil",
    "null",
    "own.evil",
    "other port",
    "two",
    "guest",
    "empty",
)
SITES: Final = ("absent", "same-origin", "none", "same-site", "cross-site", "nonsense", "visit")
METHODS: Final = ("", "", "", "", "HEAD", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "preflight")
JSON: Final = ("Content-Type", "application/json")
MARK: Final = ("X-Pullcord", "1")
WAYS: Final = (
    Way("right", (JSON, MARK)),
    Way("right", (JSON, MARK)),
    Way("unmarked", (JSON,), is_marked=False),
    Way("marked otherwise", (JSON, ("X-Pullcord", "0")), is_marked=False),
    Way("form", (("Content-Type", "application/x-www-form-urlencoded"), MARK), is_json=False),
    Way("form, unmarked", (("Content-Type", "text/plain"),), is_marked=False, is_json=False),
    Way("text", (("Content-Type", "text/plain"), MARK), is_json=False),
    Way("no type", (MARK,), is_json=False),
)


def places(run: str, other: str) -> list[Place]:
    found = [Place("GET", path, None) for path in FILES]
    for route in ROUTES:
        for about in (run, other) if "{run}" in route.path else (None,):
            path = route.path.replace("{run}", str(about)).replace("{grant}", "00000000")
            body = BODIES.get(path) or BODIES.get(path.rpartition("/")[2]) or b"{}"
            found.append(
                Place(
                    route.method,
                    path,
                    route.right,
                    run=None if route.starts else about,
                    narrow=route.narrows,
                    body=body if route.method == "POST" else b"",
                )
            )
    unknown = ("/nothing", "/runs/", "//runs", "/..", "/%2e%2e/me", "/me/", "/page.html", "/.git")
    found += [Place("GET", path, "view", narrow=True) for path in (*unknown, "/openapi.json")]
    return found


async def people(there: RunningServer, run: str, other: str) -> list[Who]:
    def bearer(code: str) -> tuple[tuple[str, str], ...]:
        return (("Authorization", f"Bearer {code}"),)

    link, code = there.link("stop", run)
    ended, ended_code = there.link("stop", run)
    of_ended = await there.session(ended_code)
    there.keeper.revoke(ended)
    revoked = there.keeper.give(kind="token", name="gone", right="admin", lasts_s=600)
    there.keeper.revoke(revoked[0].id)
    admin, session = there.token(), await there.session(there.keeper.launch())
    narrow = await there.session(code)
    assert link
    return [
        Who("nobody"),
        Who("wrong", bearer("x" * 43)),
        Who("empty", bearer("")),
        Who("expired", bearer(there.token(lasts_s=-1))),
        Who("revoked", bearer(revoked[1])),
        Who("in the query", query=f"token={admin}&access_token={admin}&authorization={admin}"),
        Who("basic", (("Authorization", f"Basic {admin}"),)),
        Who("two", (*bearer(admin), *bearer(admin))),
        Who("other header", (("X-Token", admin), ("Token", admin))),
        Who("cookie of another name", of_session(session.replace(COOKIE, "session"))),
        Who("cookie without its key", of_session(session)[:1]),
        Who("key without its cookie", of_session(session)[1:]),
        Who("key of another session", (of_session(session)[0], of_session(narrow)[1])),
        Who("key twice", (*of_session(session), of_session(session)[1])),
        Who("cookie as its key", (of_session(session)[0], ("X-Pullcord-Key", cookie_of(session)))),
        Who("cookie of a token", (("Cookie", f"{COOKIE}={admin}"),)),
        Who("link's code as a token", bearer(code)),
        Who("link's code as a cookie", (("Cookie", f"{COOKIE}={code}"),)),
        Who("session as a token", bearer(cookie_of(session))),
        Who("session of a revoked link", of_session(of_ended)),
        Who("digest", bearer(next(iter(there.keeper.all())).digest)),
        *(Who(right, bearer(there.token(right)), right) for right in RIGHTS),
        *(Who(f"{right} here", bearer(there.token(right, run)), right, run) for right in RIGHTS),
        *(Who(f"{r} there", bearer(there.token(r, other)), r, other) for r in RIGHTS),
        Who("session", of_session(session), "admin", cookie=True),
        Who("link", of_session(narrow), "stop", run, cookie=True),
    ]  # fmt: skip


def cookie_of(session: str) -> str:
    return of_session(session)[0][1].partition("=")[2]


def host_lines(there: RunningServer, kind: str) -> list[tuple[str, str]]:
    port = there.port
    said = {
        "own": there.name,
        "evil": "evil.example",
        "own.evil": f"127.0.0.1.evil.example:{port}",
        "own with a dot": f"127.0.0.1.:{port}",
        "other port": f"127.0.0.1:{port + 1}",
        "no port": "127.0.0.1",
        "zeros": f"0.0.0.0:{port}",
        "v6": f"[::1]:{port}",
        "v6 mapped": f"[::ffff:127.0.0.1]:{port}",
        "user": f"ana@127.0.0.1:{port}",
        "upper": f"LOCALHOST:{port}",
        "empty": "",
    }
    if kind == "none":
        return []
    if kind == "two":
        return [("Host", there.name), ("Host", there.name)]
    return [("Host", said.get(kind, there.name))]


def origin_lines(there: RunningServer, kind: str) -> list[tuple[str, str]]:
    own = f"http://{there.name}"
    said = {
        "own": own,
        "evil": EVIL,
        "null": "null",
        "own.evil": f"http://127.0.0.1.evil.example:{there.port}",
        "other port": f"http://127.0.0.1:{there.port + 1}",
        "guest": GUEST,
        "empty": "",
    }
    if kind == "absent":
        return []
    return [("Origin", own), ("Origin", EVIL)] if kind == "two" else [("Origin", said[kind])]


def site_lines(kind: str) -> list[tuple[str, str]]:
    if kind == "visit":
        found = {"Site": "cross-site", "Mode": "navigate", "Dest": "document"}
        return [(f"Sec-Fetch-{name}", value) for name, value in found.items()]
    return [] if kind == "absent" else [("Sec-Fetch-Site", kind)]


def target(there: RunningServer, tried: Tried) -> str:
    path = tried.place.path + (f"?{tried.who.query}" if tried.who.query else "")
    if tried.host.startswith("absolute"):
        return f"http://{there.name if tried.host.endswith('own') else 'evil.example'}{path}"
    return path


# --- what must come of it -------------------------------------------------------------------------


def may_pass(tried: Tried) -> bool:
    """Whether anything but a refusal may be answered. Written from the promises, not the code."""
    place, who = tried.place, tried.who
    is_open = place.right is None
    is_page = is_open and place.method == "GET"
    is_visit = is_page and tried.services == "visit" and tried.origin == "absent"
    is_guest = tried.origin == "guest"
    is_own_site = tried.services in ("absent", "same-origin", "none")
    right_page = tried.origin in ("absent", "own") and is_own_site
    if tried.host != "own" or not (right_page or is_guest or is_visit):
        return False
    if tried.method == "preflight":
        return is_guest
    if tried.method or not (place.method == "GET" or (tried.way.is_marked and tried.way.is_json)):
        return False
    if is_open:
        return True
    if who.right is None or (who.cookie and is_guest):
        return False
    about = who.run if place.narrow else place.run
    is_enough = RIGHTS.index(who.right) >= RIGHTS.index(place.right or "admin")
    return is_enough and (who.run is None or who.run == about)


def everything(them: list[Place], who: list[Who]) -> list[Tried]:
    """All of it would be millions: each place with each single trouble, and many together. In a
    sample: some places with each single trouble, and of the others a few."""
    draw = random.Random(fresh_seed() if FULL else 7)
    single = one_trouble(them, who)
    many = [drawn(draw, them, who) for _ in range(5_000)]
    if FULL:
        return single + many
    few = [next(p for p in them if p.path.endswith(end)) for end in ("/me", "/pause", "/fork")]
    return one_trouble(few, who) + draw.sample(single + many, SAMPLE)


def one_trouble(them: list[Place], who: list[Who]) -> list[Tried]:
    [admin] = [one for one in who if one.name == "admin"]
    [session] = [one for one in who if one.name == "session"]
    right = WAYS[0]
    found = [Tried(p, one, "own", "absent", "absent", right, "") for p in them for one in who]
    for place, host in itertools.product(them, HOSTS):
        found.append(Tried(place, admin, host, "absent", "absent", right, ""))
    for place, origin, services in itertools.product(them, ORIGINS, SITES):
        found.append(Tried(place, session, "own", origin, services, right, ""))
    for place, method, way in itertools.product(them, sorted(set(METHODS)), WAYS[1:]):
        found.append(Tried(place, session, "own", "own", "same-origin", way, method))
    return found


def drawn(draw: random.Random, them: list[Place], who: list[Who]) -> Tried:
    return Tried(
        draw.choice(them),
        draw.choice(who),
        draw.choice(("own", draw.choice(HOSTS))),
        draw.choice(("absent", draw.choice(ORIGINS))),
        draw.choice(("absent", draw.choice(SITES))),
        draw.choice(WAYS),
        draw.choice(METHODS),
    )


async def sent(there: RunningServer, tried: Tried) -> Answer:
    place, way = tried.place, tried.way
    method = "OPTIONS" if tried.method == "preflight" else tried.method or place.method
    body = b"" if method in ("GET", "OPTIONS", "TRACE") else place.body
    headers = [
        *host_lines(there, tried.host),
        *tried.who.headers,
        *origin_lines(there, tried.origin),
        *site_lines(tried.services),
        *way.headers,
    ]
    if tried.method == "preflight":
        headers.append(("Access-Control-Request-Method", place.method))
        headers.append(("Access-Control-Request-Headers", "authorization, x-pullcord"))
    if body:
        headers.append(("Content-Length", str(len(body))))
    return await there.send(method, target(there, tried), headers, body)


def check(tried: Tried, answer: Answer) -> None:
    """What holds for every answer."""
    assert 200 <= answer.status < 500, (tried, answer)
    allowed = answer.header("access-control-allow-origin")
    assert allowed == "" or (allowed == GUEST and tried.origin == "guest"), (tried, answer)
    assert not answer.header("access-control-allow-credentials"), (tried, answer)
    assert answer.header("x-content-type-options") == "nosniff", (tried, answer)


@pytest.fixture
async def there(tmp_path: Path) -> AsyncGenerator[RunningServer]:
    async with running_server(tmp_path, origins=[GUEST], asks=asks) as made:
        yield made


@pytest.mark.campaign
async def test_nothing_that_must_not_pass_reads_or_changes_anything(there: RunningServer) -> None:
    run, other = [(await there.start("asks")).id for _ in range(2)]
    who = await people(there, run, other)
    tried = everything(places(run, other), who)
    refused = [one for one in tried if not may_pass(one)]
    await quiet(there, run, other)
    before = await there.kept()
    for one in refused:
        answer = await sent(there, one)
        check(one, answer)
        assert answer.status >= 400, (one, answer)
        assert answer.header("content-type") == "application/problem+json", (one, answer)
    assert await there.kept() == before
    let_in = sorted((one for one in tried if may_pass(one)), key=lambda t: "end" in t.place.path)
    for one in let_in:
        if one.place.path == "/session/end" and one.who.cookie:
            continue  # it would be as good as nobody from then on
        answer = await sent(there, one)
        check(one, answer)
        is_wrong_code = one.place.path == "/session"
        assert answer.status not in (401, 403, 405, 415) or is_wrong_code, (one, answer)
    print(f"{len(refused)} refused, {len(let_in)} let in")
    assert len(refused) > len(tried) / 3
    assert let_in


async def quiet(there: RunningServer, *runs: str) -> None:
    """Wait until nothing happens by itself."""
    for run in runs:
        await (await there.runtime.get(run)).wait_for(RunState.WAITING)


async def test_the_page_is_shown_to_whoever_follows_a_link_to_it_and_to_nobody_else(
    there: RunningServer,
) -> None:
    visit = [("Host", there.name), *site_lines("visit")]
    for path in FILES:
        answer = await there.send("GET", path, visit)
        assert answer.status == 200
        assert "require-trusted-types-for" in answer.header("content-security-policy")
        assert "unsafe" not in answer.header("content-security-policy")
    framed = [("Host", there.name), ("Sec-Fetch-Site", "cross-site"), ("Sec-Fetch-Dest", "iframe")]
    assert (await there.send("GET", "/", [*framed, ("Sec-Fetch-Mode", "navigate")])).status == 403
    assert (await there.send("GET", "/runs", visit)).status == 403


async def test_a_launch_link_opens_one_session_and_its_cookie_is_for_this_browser_only(
    there: RunningServer,
) -> None:
    code = there.keeper.launch()
    first = await there.post("/session", {"code": code})
    assert first.status == 200
    cookie = first.header("set-cookie").lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert code not in cookie
    assert first.json["key"].lower() not in cookie
    again = await there.post("/session", {"code": code})
    assert (again.status, again.header("set-cookie")) == (401, "")


async def test_a_session_ends_when_it_is_ended(there: RunningServer) -> None:
    cookie = await there.session(there.keeper.launch())
    headers = [("Host", there.name), *of_session(cookie), MARK, JSON, ("Content-Length", "2")]
    assert (await there.send("GET", "/me", headers[:3])).json["how"] == "session"
    assert (await there.send("POST", "/session/end", headers, b"{}")).status == 204
    assert (await there.send("GET", "/me", headers[:3])).status == 401


async def test_what_is_kept_lets_nobody_in(there: RunningServer) -> None:
    code = there.token()
    kept = (there.folder / "grants.json").read_bytes()
    assert code.encode() not in kept
    assert (there.folder / "grants.json").stat().st_mode & 0o777 == 0o600
    for word in set(re.findall(rb"[0-9A-Za-z_-]{8,}", kept)):
        assert (await there.get("/me", word.decode())).status == 401


async def test_every_session_by_a_link_counts_until_there_are_very_many(
    there: RunningServer,
) -> None:
    run = await there.start("asks")
    _, code = there.link("view", run.id)
    for _ in range(130):
        assert there.keeper.session(code)
    assert len(there.keeper.all()) < 60
    newest = [("Host", there.name), *of_session(await there.session(code))]
    assert (await there.send("GET", "/me", newest)).status == 200


async def test_a_path_with_what_cannot_be_seen_in_it_is_none(there: RunningServer) -> None:
    for path in ("/me%0a", "/me%00", "/%0d%0aX: 1", "/me%e2%80%8b", "/runs%0a", "/..%5cme"):
        assert (await there.get(path.replace(" ", "%20"))).status == 400
