"""Left in one terminal, paused from a second, resumed in a third; watched through a server in a
fourth, and on the screen of all runs in a fifth. Every one of them a real one."""

from pathlib import Path

from pullcord.core.states import RunState
from tests.cli.serving import serve
from tests.terminal.tty import StoreWithTerminals, agent
from tests.tui.top import Tty as Top

ELSEWHERE = Path(__file__).parents[1] / "cli" / "talker.py"  # agents of the server: not this one


def test_everybody_sees_the_same_and_the_terminal_that_watches_stops_nothing(
    tmp_path: Path,
) -> None:
    desk = StoreWithTerminals(tmp_path)
    with serve(tmp_path, str(ELSEWHERE)) as serving:
        desk.env["PULLCORD_TOKEN"] = serving.token("view")
        with desk.tty("run", agent("planned"), "--run-id", "r1") as first:
            first.shows("● Running · step 1 of 2")
            with (
                desk.tty("watch", "r1", "--server", serving.url, rows=60) as watching,
                Top("top", "--server", serving.url, env=desk.env) as top,
            ):
                watching.shows("▸ one")
                top.until(lambda said: "Running" in said and "r1" in said)
                desk.open_gate("one")
                first.shows("step 2 of 2")
                watching.shows("✓ one one", "▸ two")
                first.press("q", "q")
                assert first.ended() == 130

                with desk.tty("pause", "r1", "--by", "bo", "--reason", "lunch") as second:
                    assert second.ended() == 0
                    assert "Paused r1." in second.vt.text
                watching.shows("bo paused it “lunch”")
                top.until(lambda said: "Paused by bo" in said)

                with desk.tty("resume", "r1", "two, later") as third:
                    third.shows("? Waiting for you · Nobody knows whether step 'two'")
                    watching.shows("ana resumed it", "? Nobody knows whether step 'two'")
                    top.until(lambda said: "Waiting" in said)
                    desk.open_gate("two")
                    third.press("a", "run", "\r")
                    assert third.ended() == 0
                    assert "✓ Completed" in third.vt.text

                assert watching.ended() == 0  # it has ended with its run
                assert "✓ completed" in watching.vt.text
                assert watching.vt.foreign == []
                top.until(lambda said: "Completed" in said)
                top.press("q")
                assert top.end()[0] == 0
        run = desk.until(lambda _: True)
        assert run.state is RunState.COMPLETED
        assert run.cancel is None


def test_who_stops_watching_through_a_server_stops_nothing(tmp_path: Path) -> None:
    desk = StoreWithTerminals(tmp_path)
    with serve(tmp_path, str(ELSEWHERE)) as serving:
        desk.env["PULLCORD_TOKEN"] = serving.token("view")
        with desk.tty("run", agent("asks"), "--run-id", "r1") as at:
            at.shows("? Waiting for you")
            with desk.tty("watch", "r1", "--server", serving.url) as watching:
                watching.shows("? ship it?")
                watching.press("\x03")
                watching.process.wait()
                assert watching.is_as_it_was or not watching.vt.modes
            assert desk.until(lambda _: True).state is RunState.WAITING
            at.press("a", "yes", "\r")
            assert at.ended() == 0
