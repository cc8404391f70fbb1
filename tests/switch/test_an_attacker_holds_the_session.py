"""Seed 004: whoever controls the session cannot keep others from stopping it from outside."""

import signal
from pathlib import Path

from pullcord.core.states import RunState
from tests.cli.serving import serve
from tests.terminal.tty import CTRL_C, ESC, StoreWithTerminals

ATTACKER = Path(__file__).with_name("attacker.py")


def test_it_is_stopped_from_outside(tmp_path: Path) -> None:
    """The tool holds the operator's terminal, floods the page and calls the API, with a stolen
    token that may only look; keys and signals do nothing."""
    answers = tmp_path / "answers"
    with serve(tmp_path) as serving:
        desk = StoreWithTerminals(tmp_path)
        desk.env["PC_SERVER"], desk.env["PC_STOLEN"] = serving.url, serving.token("view")
        desk.env["PC_ANSWERS"], desk.env["PULLCORD_STORE"] = str(answers), str(serving.here.store)
        with desk.tty("run", f"{ATTACKER}:attacks", "--run-id", "r1") as at:
            at.shows("all is well")
            serving.here.until(
                lambda _: answers.exists() and "release 403" in answers.read_text(), run_id="r1"
            )
            at.press(CTRL_C, CTRL_C, ESC, "c", "c")
            assert at.process.poll() is None
            said = serving.here("kill-switch", "engage", "--reason", "taken over", "--json").json
            assert (said["killed"], said["not_stopped"]) == ([at.process.pid], [])
            assert at.process.wait() == -signal.SIGKILL
        # The keys have cancelled the run, maybe; what it does has not stopped for that.
        serving.here.reached(RunState.PAUSED, RunState.CANCELLED, run_id="r1")
        assert serving("kill-switch", "status").out.startswith("Engaged for everything, by ana")
        tried = [line.split()[1] for line in answers.read_text().splitlines()]
        assert set(tried) == {"403"}
