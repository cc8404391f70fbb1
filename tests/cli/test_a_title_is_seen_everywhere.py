"""A run that somebody has given a title shows it wherever runs are shown, and to nobody who may not
see what was said in it."""

from collections.abc import Generator
from pathlib import Path

import pytest

from pullcord.core.commands import TITLE_MAX_CHARS
from pullcord.core.events import Renamed
from pullcord.core.states import RunState
from tests.cli.serving import Serving, serve
from tests.cli.terminal import Terminal, agent

TITLE = "churn in May, EU only"


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    with serve(tmp_path_factory.mktemp("titles")) as made:
        made.begin("planned", "wait-h", "wait-s")
        for name in ("wait-h", "wait-s"):
            made.here.reached(RunState.WAITING, run_id=name)
            made.here("run", agent("quick"), "--run-id", name.replace("wait", "done"))
        yield made


@pytest.mark.parametrize("is_abroad", [False, True], ids=["in a store", "on a server"])
@pytest.mark.parametrize("run", ["wait", "done"])
def test_the_command_line_gives_it_and_shows_it(
    serving: Serving, run: str, is_abroad: bool
) -> None:
    pullcord: Terminal = serving.abroad if is_abroad else serving.here
    run = f"{run}-{'s' if is_abroad else 'h'}"
    done = pullcord("rename", run, TITLE)
    assert (done.status, done.out) == (0, f"Renamed {run}: “{TITLE}”.\n")
    again = pullcord("rename", run, TITLE, "--json")
    assert (again.status, again.json["verdict"]) == (0, "already")
    assert pullcord("rename", run, TITLE).out == f"{run} has that title already.\n"
    [listed] = [line for line in pullcord("ps", "--all").out.splitlines() if run in line]
    assert TITLE in listed
    assert TITLE in pullcord("show", run).out.splitlines()[0]
    rows = {row["run"]: row["title"] for row in pullcord("ps", "--all", "--json").json}
    assert rows[run] == pullcord("show", run, "--json").json["title"] == TITLE
    assert f"named it: {TITLE}" in pullcord("show", run, "--records").out
    taken = pullcord("rename", run, "")
    assert (taken.status, taken.out) == (0, f"{run} has no title any more.\n")
    assert TITLE not in pullcord("ps", "--all").out


@pytest.mark.parametrize("is_abroad", [False, True], ids=["in a store", "on a server"])
@pytest.mark.parametrize("title", ["two\nlines", "x" * (TITLE_MAX_CHARS + 1), "\u202edesrever"])
def test_one_that_is_no_short_line_is_refused(
    serving: Serving, title: str, is_abroad: bool
) -> None:
    pullcord: Terminal = serving.abroad if is_abroad else serving.here
    refused = pullcord("rename", "wait-h", title)
    assert refused.status == 2
    assert "The title cannot be used" in refused.err
    assert "Nothing was changed." in refused.err


@pytest.mark.parametrize(
    "words",
    [("cancel", "r1", "--quarantine"), ("forget", "r1", "--yes")],
    ids=["quarantined", "forgotten"],
)
def test_it_goes_with_what_was_said(tmp_path: Path, words: tuple[str, ...]) -> None:
    pullcord = Terminal(tmp_path)
    if words[0] == "forget":
        pullcord("run", agent("quick"), "--run-id", "r1")
    else:
        pullcord("run", agent("quick"), "--run-id", "r0")
        pullcord("continue", "r0", "go on", "--detach")
        run = pullcord("ps", "--json").json[0]["run"]
        words = ("cancel", run, "--quarantine")
    assert pullcord("rename", words[1], "zzword").status == 0
    assert pullcord(*words).status == 0
    for look in (
        ("ps", "--all"), ("ps", "--all", "--json"), ("show", words[1], "--records"),
        ("show", words[1], "--records", "--json"), ("watch", words[1]), ("log", "show"),
    ):  # fmt: skip
        assert "zzword" not in pullcord(*look).out, look
    if words[0] == "forget":
        refused = pullcord("rename", words[1], "zzword")
        assert (refused.status, "payloads were deleted" in refused.err) == (3, True)
    else:
        assert pullcord("rename", words[1], "zzword again").status == 0  # it is evidence, too
        assert "zzword" not in pullcord("show", words[1], "--records", "--json").out


def test_what_is_secret_in_it_is_sealed(tmp_path: Path) -> None:
    pullcord = Terminal(tmp_path)
    pullcord.env |= {"PULLCORD_SECRETS": "THE_KEY", "THE_KEY": "zzword-of-ana-0123456789"}
    pullcord("run", agent("quick"), "--run-id", "r1")
    assert pullcord("rename", "r1", "for zzword-of-ana-0123456789").status == 0
    title = pullcord("show", "r1", "--json").json["title"]
    assert title.startswith("for ")
    assert "zzword" not in title
    assert b"zzword" not in pullcord.store.read_bytes()


def test_the_record_of_it_says_who_and_when(serving: Serving) -> None:
    serving.here("rename", "done-h", "by ana", "--by", "ana", "--reason", "to find it")
    shown = serving.here("show", "done-h", "--json", "--records").json
    [record] = [one for one in shown["records"] if one["event"].get("title") == "by ana"]
    assert record["event"]["type"] == Renamed.__struct_config__.tag
    assert (record["event"]["by"], record["event"]["reason"]) == ("ana", "to find it")
