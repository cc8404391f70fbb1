"""`--server` is the same command: the same words, the same exit status, the same errors."""

import json
import re
import signal
from collections.abc import Generator
from pathlib import Path

import pytest

from pullcord.core.states import RunState
from tests.cli.serving import Abroad, Serving, serve
from tests.cli.terminal import Said

WORLD = Path(__file__).with_name("world.py")


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    """Runs in every state a person meets, some of them twice: one for each way to get at it."""
    with serve(tmp_path_factory.mktemp("world"), str(WORLD)) as made:
        made.begin("planned", "ask-h", "ask-s", given="waits")
        made.begin("pays", "pay-h", "pay-s", "deny-h", "deny-s", "edit-h", "edit-s")
        made.begin("hangs", "hang-h", "hang-s", "stop-h", "stop-s", "told-h", "told-s")
        made.begin("quick", "done-h", "done-s", given="x")
        made.begin("drafts", "undo-h", "undo-s")
        made.begin("capped", "cap-h", "cap-s")
        for name in ("done-h", "done-s", "undo-h", "undo-s"):
            made.here.ended(run_id=name)
        for name in ("cap-h", "cap-s"):
            made.here.reached(RunState.PAUSED, run_id=name)
        for name in ("ask-h", "ask-s", "pay-h", "pay-s", "deny-h", "deny-s", "edit-h", "edit-s"):
            made.here.reached(RunState.WAITING, run_id=name)
        for name in ("hang-h", "hang-s", "stop-h", "stop-s", "told-h", "told-s"):
            made.here.until(lambda run: bool(run.open_steps()), run_id=name)
        yield made


def same(said: Said) -> tuple[int, str, str]:
    """Without what differs between two runs, or two moments: the name, the time, who asked."""

    def plain(text: str) -> str:
        text = re.sub(r"\b(\w+)-[hs]\b", r"\1-X", text)
        text = re.sub(r"\d\d:\d\d(:\d\d)?|\d+ ms", "TIME", text)
        text = re.sub(r" · TIME (waiting|paused|queued)", "", text)  # under a second it is not said
        text = re.sub(r'"(\w+_ms)":-?\d+', r'"\1":0', text)
        text = re.sub(r"-([0-9a-f]{10}|[a-z2-7]{26}\b)", "-ID", text)
        return re.sub(r"\b(ana|ci)\b", "WHO", text)

    return said.status, plain(said.out), plain(said.err)


LOOKING = [
    ("ps", "--all"),
    ("ps", "--all", "--json"),
    ("ps", "--limit", "2"),
    ("show", "done-h"),
    ("show", "done-h", "--records"),
    ("show", "done-h", "--json"),
    ("show", "undo-h", "--json", "--records"),
    ("show", "ask-h"),
    ("show", "ask-h", "--json"),
    ("show", "cap-h"),
    ("receipt", "done-h"),
    ("receipt", "undo-h", "--json"),
    ("watch", "done-h"),
    ("watch", "done-h", "--json"),
    ("watch", "done-h", "--json", "--after", "3"),
    ("approvals",),
    ("approvals", "pay-h"),
    ("attention",),
    ("attention", "--json"),
    # what goes wrong
    ("show", "no-such-run"),
    ("show", "no-such-run", "--json"),
    ("show", "don"),
    ("show", "p"),
    ("show", "a b"),
    ("show", "../../etc/passwd"),
    ("show", "x" * 70),
    ("show", ""),
    ("watch", "done-h", "--after", "999"),
    ("watch", "done-h", "--after", "x"),
    ("pause", "done-h"),
    ("pause", "done-h", "--json"),
    ("redirect", "done-h", "more"),
    ("redirect", "ask-h", " "),
    ("answer", "ask-h", "never-asked", "1"),
    ("answer", "ask-h", "ship", "{"),
    ("approve", "ask-h", "ship"),
    ("approve", "pay-h", "nothing"),
    ("settle", "done-h", "nothing"),
    ("raise", "ask-h", "nothing=1"),
    ("raise", "ask-h", "tokens=1"),
    ("signal", "ask-h", "enough"),
    ("undo", "done-h"),
    ("undo", "ask-h", "--json"),
    ("fork", "no-such-run"),
    ("cancel", "no-such-run"),
    ("fork", "done-h", "--at", "999"),
    ("continue", "told-h"),
]


@pytest.mark.parametrize("words", LOOKING, ids=" ".join)
def test_what_is_looked_at_or_refused_reads_the_same(
    serving: Serving, words: tuple[str, ...]
) -> None:
    here, there = serving.here(*words), serving(*words)
    assert same(there) == same(here)
    assert "Traceback" not in there.err


CONTROLS = [
    ("pause", "ask-?", "--reason", "a look", "--wait"),
    ("pause", "ask-?"),
    ("redirect", "ask-?", "in German"),
    ("resume", "ask-?", "and short", "--detach"),
    ("answer", "ask-?", "ship", "yes"),
    ("receipt", "ask-?"),
    ("redirect", "told-?", "score EU only"),
    ("redirect", "told-?", "score EU only", "--json", "--key", "k1"),
    ("pause", "hang-?", "--json"),
    ("pause", "hang-?", "--wait", "--timeout-s", "0.2"),
    ("pause", "hang-?", "--wait", "--timeout-s", "0.2", "--json"),
    ("cancel", "hang-?", "--reason", "wrong path", "--wait"),
    ("cancel", "stop-?", "--now", "--wait", "--json"),
    ("pause", "stop-?"),
    ("approve", "pay-?", "pay"),
    ("approve", "pay-?", "pay"),
    ("deny", "deny-?", "pay", "--reason", "too much"),
    ("edit", "edit-?", "pay", '["eur", 5]'),
    ("edit", "edit-?", "pay", '{"eur": 5}'),
    ("approvals", "edit-?"),
    ("raise", "cap-?", "steps=80"),
    ("undo", "undo-?"),
    ("receipt", "undo-?"),
]


def test_each_control_does_and_says_the_same(serving: Serving) -> None:
    """In this order, once on the store and once through the server, on runs that are alike."""
    for words in CONTROLS:
        here = serving.here(*(word.replace("-?", "-h") for word in words))
        there = serving(*(word.replace("-?", "-s") for word in words))
        if words[:2] in (("answer", "ask-?"), ("approve", "pay-?"), ("deny", "deny-?")):
            serving.here.ended(run_id=words[1].replace("-?", "-h"))
            serving.here.ended(run_id=words[1].replace("-?", "-s"))
        if words[-1] == '["eur", 5]':
            assert (here.status, "each argument under its name" in here.err) == (2, True)
        if words[-1] == '{"eur": 5}':
            for name in ("edit-h", "edit-s"):
                serving.here.until(lambda run: len(run.questions) == 2, run_id=name)
        assert same(there) == same(here), words


def test_a_run_is_started_by_name_and_followed(serving: Serving) -> None:
    said = serving("run", "quick", '{"month": "May"}', "--run-id", "new-1")
    assert (said.status, said.out) == (0, 'hello\n[{"month": "May"}, "once"]\n')
    assert "new-1 started. To stop it: pullcord cancel new-1" in said.err
    piped = serving("run", "quick", "-", "--json", given="from stdin\n")
    assert [json.loads(line) for line in piped.out.splitlines()][-1]["event"]["result"] == [
        "from stdin",
        "once",
    ]
    again = serving("run", "quick", "--run-id", "new-1")
    assert (again.status, "There is already a run new-1" in again.err) == (2, True)


def test_what_follows_from_a_run_is_followed_too(serving: Serving) -> None:
    serving("run", "quick", "x", "--run-id", "src-1")
    assert serving("fork", "src-").out == '["x", "once"]\n'
    assert serving("continue", "src-1", "y").out == 'hello\n["y", "once"]\n'
    only = serving("continue", "src-1", "-", "--detach", "--json", given="z")
    assert serving.here.ended(run_id=only.json["run"]).state is RunState.COMPLETED


def test_a_failed_run_and_a_cancelled_one_keep_their_exit_status(serving: Serving) -> None:
    failed = serving("run", "fails", "--run-id", "fail-1")
    assert (failed.status, "no such month" in failed.err) == (1, True)
    with serving.abroad.running("run", "hangs", "--run-id", "kill-1") as process:
        serving.here.until(lambda run: bool(run.open_steps()), run_id="kill-1")
        assert serving("cancel", "kill-1", "--wait").status == 0
        process.communicate(timeout=60)
    assert process.returncode == 3


def test_ctrl_c_stops_the_following_and_not_the_run(serving: Serving) -> None:
    with serving.abroad.running("run", "planned", "--run-id", "left-1") as process:
        serving.here.reached(RunState.WAITING, run_id="left-1")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "It goes on without you. Follow it again: pullcord watch left-1" in err
    assert serving.here("show", "left-1", "--json").json["driven"] is True


def test_a_watch_sees_what_is_said_and_ends_with_the_run(serving: Serving) -> None:
    serving.begin("planned", "seen-1")
    run = serving.here.reached(RunState.WAITING, run_id="seen-1")
    with serving.abroad.running("watch", "seen-1", "--json") as process:
        assert process.stdout
        while json.loads(process.stdout.readline())["event"]["type"] != "blocked":
            pass
        serving("answer", "seen-1", run.open_questions()[0], '"yes"')
        rest, _ = process.communicate(timeout=60)
    last = json.loads(rest.splitlines()[-1])
    assert (process.returncode, last["event"]["result"]) == (0, ["one", "two", "yes"])


def test_who_asked_is_whoever_the_token_was_given_to(serving: Serving) -> None:
    serving.begin("planned", "by-1")
    serving.here.reached(RunState.WAITING, run_id="by-1")
    forged = serving("pause", "by-1", "--by", "the boss")
    assert (forged.status, "A server signs with the name" in forged.err) == (2, True)
    serving("pause", "by-1")
    shown = serving("show", "by-1", "--json").json["run_state"]["pause"]
    assert shown["by"] == "ci"


def test_a_token_for_one_run_sees_and_stops_that_one_alone(serving: Serving) -> None:
    serving.begin("planned", "mine-1", "mine-2")
    for name in ("mine-1", "mine-2"):
        serving.here.reached(RunState.WAITING, run_id=name)
    narrow = Abroad(serving.folder, serving.url, serving.token("control", "--run", "mine-1"))
    assert narrow("pause", "mine").out == "Paused mine-1.\n"  # it knows of no other
    assert [row["run"] for row in narrow("ps", "--json").json] == ["mine-1"]
    refused = narrow("pause", "mine-2")
    assert (refused.status, "has not been given it" in refused.err) == (1, True)
    assert narrow("approvals", "mine-2").status == 1
    assert serving.here("show", "mine-2", "--json").json["state"] == "waiting"


def test_of_a_quarantined_run_nothing_is_shown_through_a_server_either(serving: Serving) -> None:
    serving.begin("planned", "evil-1")
    serving.here.reached(RunState.WAITING, run_id="evil-1")
    serving("cancel", "evil-1", "--quarantine", "--wait")
    for words in (("show", "evil-1"), ("show", "evil-1", "--json", "--records")):
        here, there = serving.here(*words), serving(*words)
        assert same(there) == same(here)
        assert "ship it" not in there.out
    for verb, why in (("continue", "without words"), ("fork", "is quarantined")):
        here, there = (side(verb, "evil-1", "--detach") for side in (serving.here, serving))
        assert same(there) == same(here)
        assert (here.status, why in here.err) == (2, True)
    assert serving.here("continue", "evil-1", '"anew"', "--detach").status == 0
