"""view < stop < control < approve < admin, for one run or for all: nobody gets further than that.

What each thing needs is written down here once more, by hand, as it was promised.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Final

import pytest

import pullcord
from pullcord import Context, RunHandle, RunState
from pullcord.core.events import (
    Answered,
    Created,
    PauseRequested,
    QuestionAsked,
    Redirected,
)
from pullcord.server.bounds import Bounds
from pullcord.server.rights import Grant, How, Right
from pullcord.server.routes import ROUTES, Route
from tests.runs.observed_runs import happened, seen
from tests.server.running_server import BOUND_S, RunningServer, running_server
from tests.storage.campaign import FULL, fresh_seed

TRIPLES: Final = 100_000 if FULL else 10_000
OVER_HTTP: Final = 4_000 if FULL else 250
LADDER: Final = {"view": 0, "stop": 1, "control": 2, "approve": 3, "admin": 4}

NEEDS: Final = {
    # what → the right, and whether one given one run has it: for that run, for what shows only
    # that run, or never
    **dict.fromkeys(
        ["GET /me", "GET /runs", "GET /find", "GET /events", "GET /inbox"], ("view", "mine")
    ),
    "GET /agents": ("view", "never"),
    **dict.fromkeys(
        [f"GET /runs/{{run}}{what}" for what in ("", "/records", "/receipt", "/events")],
        ("view", "there"),
    ),
    **dict.fromkeys(
        [f"POST /runs/{{run}}/{verb}" for verb in ("pause", "resume", "cancel")],
        ("stop", "there"),
    ),
    **dict.fromkeys(
        [
            f"POST /runs/{{run}}/{verb}"
            for verb in ("redirect", "answer", "settle", "undo", "signal", "rename")
        ],
        ("control", "there"),
    ),
    **dict.fromkeys(
        [f"POST /runs/{{run}}/{verb}" for verb in ("approve", "edit", "deny", "raise")],
        ("approve", "there"),
    ),
    "POST /runs": ("control", "never"),
    **dict.fromkeys(
        [f"POST /runs/{{run}}/{verb}" for verb in ("fork", "continue", "aside")],
        ("control", "never"),
    ),
    "POST /session/end": ("view", "mine"),
    "GET /kill-switch": ("view", "mine"),
    "POST /kill-switch/engage": ("admin", "never"),
    "POST /kill-switch/release": ("admin", "never"),
    "GET /grants": ("admin", "never"),
    "POST /grants": ("admin", "never"),
    "POST /grants/{grant}/revoke": ("admin", "never"),
}


def may(grant: Grant, route: Route, run: str | None) -> bool:
    """Whether it may, by the table above."""
    if (name := f"{route.method} {route.path}") == "POST /session":
        return True
    right, where = NEEDS[name]
    if LADDER[grant.right] < LADDER[right]:
        return False
    if grant.run is None:
        return True
    return where == "mine" or (where == "there" and grant.run == run)


def drawn(draw: random.Random, runs: list[str]) -> tuple[Grant, Route, str | None]:
    right = draw.choice(list(LADDER))
    hows: list[How] = ["session", "link", "token", "host"]
    grant = Grant(
        by="bo",
        right=right,  # pyright: ignore[reportArgumentType]
        run=draw.choice([None, *runs]),
        how=draw.choice(hows),
    )
    route = draw.choice(ROUTES)
    return grant, route, draw.choice(runs) if "{run}" in route.path else None


def test_every_route_is_in_the_table() -> None:
    assert {f"{r.method} {r.path}" for r in ROUTES} == {*NEEDS, "POST /session"}


@pytest.mark.campaign
def test_no_grant_reaches_further_than_it_says() -> None:
    draw = random.Random(fresh_seed() if FULL else 11)
    runs = ["r1", "r2", "r10", "R1", "r1-"]
    allowed = 0
    for _ in range(TRIPLES):
        grant, route, run = drawn(draw, runs)
        assert route.is_for(grant, run) == may(grant, route, run), (grant, route, run)
        allowed += may(grant, route, run)
    print(f"{allowed} of {TRIPLES} allowed")
    assert TRIPLES / 10 < allowed < TRIPLES / 2


# --- over the wire --------------------------------------------------------------------------------


@pullcord.tool(approve="always")
async def pay(amount: int) -> str:
    return f"paid {amount}"


async def asks(ctx: Context, given: Any) -> Any:
    return await ctx.ask("Which one?")


async def pays(ctx: Context) -> Any:
    return await ctx.tool(pay, 100)


class Words:
    """What an agent says, as the test hands it over."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[str] = asyncio.Queue()

    async def talks(self, ctx: Context) -> str:
        return await ctx.say(self)

    def __aiter__(self) -> "Words":
        return self

    async def __anext__(self) -> str:
        if (word := await self.queue.get()) == "":
            raise StopAsyncIteration
        return word


@pytest.fixture
def words() -> Words:
    return Words()


@pytest.fixture
async def there(tmp_path: Path, words: Words) -> AsyncGenerator[RunningServer]:
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, asks=asks, pays=pays, talks=words.talks) as made,
    ):
        yield made


async def waiting(there: RunningServer, agent: str) -> tuple[RunHandle, QuestionAsked]:
    run = await there.start(agent)
    asked = await seen(run, QuestionAsked)
    await run.wait_for(RunState.WAITING)
    return run, asked


@pytest.mark.campaign
async def test_no_token_reaches_further_than_it_says(there: RunningServer) -> None:
    draw = random.Random(fresh_seed() if FULL else 12)
    runs = [(await waiting(there, "asks"))[0].id for _ in range(3)]
    tokens: dict[tuple[str, str | None], str] = {}
    for _ in range(OVER_HTTP):
        grant, route, run = drawn(draw, runs)
        who = (grant.right, grant.run)
        token = tokens.get(who) or there.token(*who)
        tokens[who] = token
        path = route.path.replace("{run}", str(run)).replace("{grant}", "00000000")
        # A body that is refused for what is in it, but only after the right was looked at.
        ask = there.get(path, token) if route.method == "GET" else there.post(path, {"x": 1}, token)
        answer = await ask
        if may(grant, route, run):
            assert answer.status in (200, 422), (grant, route, run, answer)
        else:
            assert answer.status == 403, (grant, route, run, answer)


@pytest.mark.parametrize("called", ["stop", "control"])  # `control`: as links were made before
async def test_a_link_watches_or_stops_its_run_and_does_nothing_else(
    there: RunningServer, called: Right
) -> None:
    run, card = await waiting(there, "pays")
    other, _ = await waiting(there, "asks")
    _, code = there.link(called, run.id)
    cookie = await there.session(code)
    before = await there.kept()
    tries: list[tuple[str, dict[str, Any]]] = [
        ("/runs", {"agent": "pays"}),
        (f"/runs/{run.id}/fork", {}),
        (f"/runs/{run.id}/continue", {}),
        (f"/runs/{run.id}/aside", {"question": "Why?"}),
        (f"/runs/{run.id}/approve", {"question": card.question, "call": card.call}),
        (f"/runs/{run.id}/edit", {"question": card.question, "call": card.call, "args": {}}),
        (f"/runs/{run.id}/deny", {"question": card.question}),
        (f"/runs/{run.id}/raise", {"caps": {"steps": 9000}}),
        (f"/runs/{run.id}/redirect", {"instruction": "mail it to eve"}),
        (f"/runs/{run.id}/resume", {"instruction": "mail it to eve"}),
        (f"/runs/{run.id}/cancel", {"quarantine": True}),
        (f"/runs/{run.id}/answer", {"question": card.question, "value": True}),
        (f"/runs/{run.id}/settle", {"item": "x"}),
        (f"/runs/{run.id}/undo", {}),
        (f"/runs/{run.id}/signal", {"name": "door"}),
        (f"/runs/{run.id}/rename", {"title": "mine"}),
        (f"/runs/{other.id}/cancel", {}),
        (f"/runs/{other.id}/pause", {}),
        ("/grants", {"kind": "link", "right": "view", "run": run.id, "expires_in_s": 60}),
        ("/grants/00000000/revoke", {}),
    ]
    for path, said in tries:
        answer = await there.post(path, said, cookie)
        assert (answer.status, answer.json["code"]) == (403, "right"), path
        assert "needs the right to" in answer.json["detail"]
    assert await there.kept() == before

    me = (await there.get("/me", cookie)).json
    assert me == {"by": f"{called} {run.id}", "right": "stop", "run": run.id, "how": "link"}
    listed = (await there.get("/runs?limit=100", cookie)).json["runs"]
    assert [panel["run"] for panel in listed] == [run.id]
    inbox = (await there.get("/inbox", cookie)).json
    assert {one["run"] for kind in inbox.values() for one in kind} == {run.id}
    for path in (f"/events?run={other.id}", f"/runs/{other.id}", f"/runs/{other.id}/events"):
        assert (await there.get(path, cookie)).status == 403

    for verb in ("pause", "resume", "cancel"):
        stop = await there.post(f"/runs/{run.id}/{verb}", {"reason": "enough"}, cookie)
        assert stop.json["verdict"] == "applied", verb


async def test_a_link_is_given_no_more_than_the_right_to_stop(there: RunningServer) -> None:
    run, _ = await waiting(there, "asks")
    asked = {"kind": "link", "run": run.id, "expires_in_s": 60}
    for called in ("stop", "control"):
        made = await there.post("/grants", asked | {"right": called})
        assert made.status == 201
        cookie = await there.session(made.json["code"])
        assert (await there.get("/me", cookie)).json["right"] == "stop"
    listed = (await there.get("/grants")).json["grants"]
    assert {one["right"] for one in listed if one["kind"] == "link"} == {"stop"}


async def test_a_token_to_control_still_has_the_whole_right(there: RunningServer) -> None:
    run, _ = await waiting(there, "asks")
    other, asked = await waiting(there, "asks")
    for who in (there.token("control", run.id), there.token("control")):
        told = await there.post(f"/runs/{run.id}/redirect", {"instruction": "left"}, who)
        assert told.json["verdict"] == "applied"
        await there.post(f"/runs/{run.id}/pause", {}, who)
        went = await there.post(f"/runs/{run.id}/resume", {"instruction": "right"}, who)
        assert went.json["verdict"] == "applied"
    said = {"question": asked.question, "value": 1}
    answer = await there.post(f"/runs/{other.id}/answer", said, there.token("control", other.id))
    assert answer.json["verdict"] == "applied"


async def test_a_link_is_told_of_no_other_run(there: RunningServer) -> None:
    run, _ = await waiting(there, "asks")
    other, _ = await waiting(there, "asks")
    cookie = await there.session(there.link("view", run.id)[1])
    async with there.reading("/events", cookie) as narrow, there.reading("/events") as wide:
        await other.redirect("left", by="ana")
        [*_, row] = await wide.until("row")
        assert row.data["run"] == other.id
        await run.redirect("right", by="ana")
        [*_, row] = await narrow.until("row")
        assert [row.data["run"], row.event] == [run.id, "row"]


async def test_a_link_is_told_of_no_stop_but_of_its_own_run(there: RunningServer) -> None:
    run, _ = await waiting(there, "asks")
    await there.start("pays", thread="patient-john")
    cookie = await there.session(there.link("view", run.id)[1])
    stops: list[tuple[dict[str, str], bool]] = [
        ({"thread": "patient-john"}, False),
        ({"agent": "pays"}, False),
        ({"agent": run.id}, False),
        ({"agent": "asks"}, True),
        ({"thread": run.id}, True),
        ({}, True),
    ]
    for scope, is_mine in stops:
        await there.post("/kill-switch/engage", scope | {"reason": "what John said"})
        seen_by_all = (await there.get("/kill-switch")).json
        told = await there.get("/kill-switch", cookie)
        assert len(seen_by_all["engaged"]) == 1
        assert told.json["engaged"] == (seen_by_all["engaged"] if is_mine else []), scope
        assert (b"John" in told.body, b"patient" in told.body) == (is_mine, False)
        await there.post("/kill-switch/release", scope)


async def test_a_link_that_is_wider_than_one_run_is_not_made(there: RunningServer) -> None:
    run, _ = await waiting(there, "asks")
    before = await there.kept()
    base = {"kind": "link", "right": "view", "run": run.id, "expires_in_s": 60}
    for change in (
        {"right": "approve"},
        {"right": "admin"},
        {"right": "everything"},
        {"run": None},
        {"run": "nowhere"},
        {"run": "../x"},
        {"expires_in_s": 0},
        {"expires_in_s": 10**12},
        {"kind": "session"},
        {"name": "x" * 100},
        {"name": "a\0b"},
        {"link": "abc"},
    ):
        assert 400 <= (await there.post("/grants", base | change)).status < 500, change
    assert await there.kept() == before
    made = await there.post("/grants", base)
    assert made.status == 201
    assert made.json["url"] == f"http://{there.name}/#share={made.json['code']}"


async def test_who_was_given_one_run_cannot_give_it_on(there: RunningServer) -> None:
    run, _ = await waiting(there, "asks")
    mine = there.token("admin", run.id)
    before = await there.kept()
    given = {"kind": "link", "right": "view", "run": run.id, "expires_in_s": 60}
    assert (await there.post("/grants", given, mine)).status == 403
    assert (await there.get("/grants", mine)).status == 403
    assert await there.kept() == before


async def test_a_fork_is_no_way_around_the_right_to_raise_a_limit(there: RunningServer) -> None:
    run, _ = await waiting(there, "asks")
    more = {"limits": {"steps": 5000}}
    bo, ana = there.token("control"), there.token("approve")
    before = await there.kept()
    assert (await there.post(f"/runs/{run.id}/fork", more, bo)).status == 403
    assert await there.kept() == before
    assert (await there.post(f"/runs/{run.id}/fork", {}, bo)).status == 201
    assert (await there.post(f"/runs/{run.id}/fork", more, ana)).status == 201


async def test_what_was_quarantined_begins_no_other_run(there: RunningServer) -> None:
    run = await there.start("asks", input="a word nobody may have")
    await run.wait_for(RunState.WAITING)
    before = await run.fork()
    await run.cancel(quarantine=True)
    known = len(await there.runtime.list())
    for source in (run.id, before.id):
        for verb, said in (("fork", {}), ("aside", {"question": "Why?"})):
            answer = await there.post(f"/runs/{source}/{verb}", said)
            assert (answer.status, "quarantined" in answer.json["detail"]) == (422, True), verb
    for nothing in ({}, {"input": None}, {"input": " "}):
        answer = await there.post(f"/runs/{run.id}/continue", nothing)
        assert (answer.status, "without words" in answer.json["detail"]) == (422, True)
    assert len(await there.runtime.list()) == known
    made = await there.post(f"/runs/{run.id}/continue", {"input": "other words"})
    assert (await there.get(f"/runs/{made.json['run']}")).json["input"] == "other words"


async def test_what_is_taken_back_ends_at_once_and_so_does_what_was_open(
    there: RunningServer, words: Words
) -> None:
    run = await there.start("talks")
    which, code = there.link("view", run.id)
    cookie = await there.session(code)
    kept, token = there.keeper.give(kind="token", name="t", right="view", lasts_s=600)
    async with (
        there.reading(f"/runs/{run.id}/events", cookie) as by_link,
        there.reading(f"/runs/{run.id}/events", token) as by_token,
    ):
        words.queue.put_nowait("before")
        await by_link.until("text", text="before")
        await by_token.until("text", text="before")
        for one in (which, kept.id):
            answer = await there.post(f"/grants/{one}/revoke")
            assert answer.json["revoked"]
        assert (await there.get("/me", cookie)).status == 401
        assert (await there.get("/me", token)).status == 401
        assert (await there.post("/session", {"code": code})).status == 401
        feeding = asyncio.create_task(feed(words))
        for reader in (by_link, by_token):
            [*_, last] = await reader.until("bye")
            assert last.data == {"why": "revoked"}
            assert await reader.message() is None
        feeding.cancel()


async def test_a_stream_that_is_silent_ends_too_when_its_right_is_taken_back(
    tmp_path: Path,
) -> None:
    bounds = Bounds(beat_s=0.1)
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=bounds, asks=asks) as there,
    ):
        run, _ = await waiting(there, "asks")
        kept, token = there.keeper.give(kind="token", name="t", right="view", lasts_s=600)
        async with there.reading(f"/runs/{run.id}/events", token) as reader:
            await reader.until("panel")
            there.keeper.revoke(kept.id)
            assert (await reader.until("bye"))[-1].data == {"why": "revoked"}


async def test_a_stream_ends_at_once_when_its_session_is_ended(tmp_path: Path) -> None:
    bounds = Bounds(beat_s=10 * BOUND_S)
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=bounds, asks=asks) as there,
    ):
        run, _ = await waiting(there, "asks")
        cookie = await there.session(there.keeper.launch())
        async with there.reading(f"/events?run={run.id}", cookie) as reader:
            await reader.until("panel")
            assert (await there.post("/session/end", who=cookie)).status == 204
            assert (await reader.until("bye"))[-1].data == {"why": "revoked"}


async def test_what_has_expired_is_nothing(tmp_path: Path) -> None:
    bounds = Bounds(beat_s=0.1)
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=bounds, asks=asks) as there,
    ):
        run, _ = await waiting(there, "asks")
        _, code = there.link("view", run.id, lasts_s=2)
        cookie = await there.session(code)
        async with there.reading(f"/runs/{run.id}/events", cookie) as reader:
            assert (await reader.until("bye"))[-1].data == {"why": "revoked"}
        assert (await there.get("/me", cookie)).status == 401
        assert (await there.post("/session", {"code": code})).status == 401


async def test_who_reads_a_long_past_slowly_is_let_go_when_the_right_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal of some megabytes, and a reader who takes a little at a time."""
    monkeypatch.setattr("pullcord.server.event_streams._ASK_S", 0)
    page, pages = "x" * 100_000, 120

    async def writes(ctx: Context) -> None:
        for number in range(pages):
            await ctx.step(f"page {number}", answered, page)

    bounds = Bounds(chunk=1024, ring=1)
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=bounds, writes=writes) as there,
    ):
        run = await there.start("writes")
        await run.result()
        kept, token = there.keeper.give(kind="token", name="t", right="view", lasts_s=600)
        target = f"/runs/{run.id}/events"
        async with there.reading(target, token, buffer=64 * 1024) as reader:
            await reader.until("record", type="created")
            there.keeper.revoke(kept.id)
            taken = await reader.until("bye")
            assert taken[-1].data == {"why": "revoked"}
            assert len(taken) < pages


async def answered(value: Any) -> Any:
    return value


async def test_every_control_says_who_has_asked_and_how_they_got_in(there: RunningServer) -> None:
    run, _ = await waiting(there, "asks")
    other, asked = await waiting(there, "asks")
    cookie = await there.session(there.keeper.launch())
    link = await there.session(there.link("stop", run.id)[1])
    path = f"/runs/{run.id}"
    fetched = {"Sec-Fetch-Site": "same-origin"}
    await there.post(f"{path}/redirect", {"instruction": "b"}, there.token("control", run.id))
    await there.post(f"{path}/pause", {"reason": "look"}, cookie, more=fetched)
    await there.post(f"{path}/resume", {}, cookie)
    await there.post(f"{path}/pause", {}, link, more=fetched)
    said = {"question": asked.question, "value": 1}
    await there.post(f"/runs/{other.id}/answer", said, there.token("approve"))
    told = await happened(there.runtime, run.id, Redirected)
    assert [(e.by, e.via) for e in told] == [(f"control of {run.id}", "api, token")]
    pauses = await happened(there.runtime, run.id, PauseRequested)
    assert [(e.by, e.via, e.reason) for e in pauses] == [
        ("ana", "page, session", "look"),
        (f"stop {run.id}", "page, link", ""),
    ]
    [answer] = await happened(there.runtime, other.id, Answered)
    assert (answer.by, answer.via) == ("approve of all", "api, token")
    made = (await there.post("/runs", {"agent": "asks"}, cookie)).json["run"]
    [born] = await happened(there.runtime, made, Created)
    assert born.by == "ana"


async def test_nobody_can_say_that_they_are_somebody_else(there: RunningServer) -> None:
    run, _ = await waiting(there, "asks")
    before = await there.kept()
    for field in ("by", "via", "source", "run", "epoch"):
        answer = await there.post(f"/runs/{run.id}/pause", {field: "ana"})
        assert (answer.status, answer.json["code"]) == (422, "invalid_fields")
    assert await there.kept() == before


async def feed(words: Words) -> None:
    """Something new, again and again."""
    while True:
        words.queue.put_nowait("more ")
        await asyncio.sleep(0.05)
