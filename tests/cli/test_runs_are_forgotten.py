"""`pullcord forget`: says what would go, deletes it only with --yes, and every surface says so."""

from collections.abc import Generator
from pathlib import Path

import pytest

from pullcord.cli.arguments import seconds_of
from pullcord.core.states import RunState
from pullcord.errors import InvalidInput
from tests.cli.serving import Serving, serve
from tests.cli.terminal import Terminal, agent

TOLD = "payloads were deleted on 20"


@pytest.fixture
def pullcord(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def test_nothing_is_deleted_without_yes(pullcord: Terminal) -> None:
    pullcord("run", agent("quick"), "May", "--run-id", "r1")
    before = pullcord("show", "r1", "--json", "--records").out
    said = pullcord("forget", "r1")
    assert said.status == 0
    assert said.out.startswith("Would delete the payloads of 1 run: ")
    assert "✓ Completed  r1" in said.out
    assert "Nothing was deleted. If that is meant: the same again with --yes" in said.out
    assert pullcord("show", "r1", "--json", "--records").out == before


def test_afterwards_every_command_says_who_deleted_it_and_why(pullcord: Terminal) -> None:
    pullcord("run", agent("quick"), "secret-of-ana", "--run-id", "r1")
    done = pullcord("forget", "r1", "--yes", "--reason", "her wish")
    assert (done.status, "The bytes are gone from the store's files." in done.out) == (0, True)
    assert b"secret-of-ana" not in b"".join(
        one.read_bytes() for one in pullcord.store.parent.rglob("runs.db*") if one.is_file()
    )
    for words in (("show", "r1"), ("ps", "--all")):
        said = pullcord(*words)
        assert (said.status, TOLD in said.out) == (0, True)
        assert "by ana: her wish" in said.out
    assert pullcord("show", "r1", "--json").json["state"] == "completed"
    assert "∅ ana had all before this deleted “her wish”" in pullcord("watch", "r1").out
    for words in (("receipt", "r1"), ("fork", "r1"), ("continue", "r1"), ("pause", "r1")):
        said = pullcord(*words)
        assert (said.status, TOLD in said.err) == (3, True), words
    again = pullcord("forget", "r1", "--yes", "--json").json
    assert (again["runs"], again["files"]) == ([], "gone")


def test_what_is_kept_is_named_with_what_to_do(pullcord: Terminal) -> None:
    pullcord("run", agent("quick"), "--run-id", "r1", "--thread", "talk")
    with pullcord.running("run", agent("planned"), "--run-id", "r2", "--thread", "talk"):
        pullcord.reached(RunState.WAITING, run_id="r2")
    said = pullcord("forget", "r1", "r2", "--yes")
    assert said.status == 3
    assert "Cannot forget run r1: run r2, which has not ended, goes on from" in said.out
    assert "Cannot forget run r2: it is " in said.out
    assert "pullcord cancel r2" in said.out
    assert "payloads of 0 runs" in said.out


def test_nobody_is_meant_unless_somebody_says_so(pullcord: Terminal) -> None:
    pullcord("run", agent("quick"), "--run-id", "r1")
    for words in (["--yes"], ["r1", "--of", "ana"], ["--older-than", "soon"]):
        said = pullcord("forget", *words)
        assert (said.status, "Nothing was deleted" in said.err) == (2, True), words
    assert pullcord("forget", "--older-than", "1h", "--json").json["runs"] == []
    [row] = pullcord("forget", "--of", "ana", "--state", "completed", "--json").json["runs"]
    assert (row["run"], row["kept"]) == ("r1", "")


def test_retain_is_what_is_meant_without_words_and_what_a_server_keeps_to(
    pullcord: Terminal,
) -> None:
    pullcord("run", agent("quick"), "--run-id", "r1")
    pullcord.folder = pullcord.store.parent
    settings = pullcord.folder / "pullcord.toml"
    settings.write_text('retain = "soon"')
    assert "'soon' is not an age" in pullcord("forget").err
    settings.write_text('retain = "90d"')
    assert "payloads of 0 runs" in pullcord("forget").out
    settings.write_text('retain = "0m"')
    with pullcord.running("serve", "--port", "0"):
        run = pullcord.until(lambda run: run.forgotten is not None)
    assert run.forgotten is not None
    assert run.forgotten.by == "retain"


@pytest.mark.parametrize(
    ("text", "wanted"), [("90d", 7_776_000), ("2w", 1_209_600), ("0m", 0), ("12h", 43_200)]
)
def test_an_age_is_a_number_and_a_unit(text: str, wanted: float) -> None:
    assert seconds_of(text) == wanted


@pytest.mark.parametrize("text", ["", "90", "d", "-1d", "1.5d", "90 d", "90days", "٣d", "1s"])
def test_what_is_no_age_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match="is not an age"):
        seconds_of(text)


@pytest.fixture
def serving(tmp_path: Path) -> Generator[Serving]:
    with serve(tmp_path) as made:
        made.begin("quick", "r1", given="x")
        made.here.ended(run_id="r1")
        yield made


def test_a_server_says_the_same(serving: Serving) -> None:
    assert serving.here("forget", "r1", "--yes", "--reason", "her wish").status == 0
    for words in (("show", "r1"), ("ps", "--all")):
        said = serving(*words)
        assert (said.status, TOLD in said.out, "by ana: her wish" in said.out) == (0, True, True)
    assert serving("show", "r1", "--json").json["seq"] > 3
    for words in (("receipt", "r1"), ("fork", "r1"), ("continue", "r1"), ("cancel", "r1")):
        said = serving(*words)
        assert (said.status, TOLD in said.err) == (3, True), (words, said)
