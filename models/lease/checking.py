"""Check `lease.pml` with spin: the design, and what it is not, each as a set of switches."""

import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

MODEL: Final = Path(__file__).with_name("lease.pml")
_MEMORY_MIB: Final = 900
_STATES: Final = re.compile(r"(\d+) states, stored\n")


class Case(NamedTuple):
    """One reading of the design. `refuted`: the checker must find how it goes wrong."""

    name: str
    switches: tuple[str, ...]
    refuted: bool


def _holds(name: str, switches: str) -> Case:
    return Case(name, tuple(switches.split()), refuted=False)


def _fails(name: str, switches: str) -> Case:
    return Case(name, tuple(switches.split()), refuted=True)


CASES: Final = (
    _holds("the design, taken over on the same machine", "ONLY_TOOL"),
    _holds("the design, taken over on another machine", "OTHER"),
    _holds("the machine sleeps, and who takes over with it", "ONLY_TOOL SLEEP"),
    _holds("the owner is killed", "ONLY_TOOL OWNER_DIES TTL=2"),
    _holds("the warden is killed on another machine", "ONLY_TOOL OTHER WARDEN_DIES AFTER=2"),
    _holds(
        "the owner's machine sleeps, with the exception",
        "ONLY_TOOL OTHER SLEEP EXCEPT_AFTER_SLEEP",
    ),
    _holds("in-process code and sleep, with the exception", "ONLY_STEP OTHER SLEEP"),
    _fails("in-process code, without the exception", "ONLY_STEP OTHER WITHOUT_EXCEPTION"),
    _fails("the owner's machine sleeps, without the exception", "ONLY_TOOL OTHER SLEEP"),
    _fails("today: the epoch fences writes only", "ONLY_TOOL NO_LEASE_IN_WARDEN SAY_WHEN_CLAIMED"),
    _fails("naive: the end is counted from the answer", "ONLY_TOOL OTHER END_FROM_ANSWER"),
    _fails("naive: no margin", "ONLY_TOOL OTHER BEFORE=0 AFTER=0"),
    _fails("naive: the warden waits to hear of it", "ONLY_TOOL OTHER NO_LEASE_IN_WARDEN"),
    _fails("asks the warden, and then claims", "ONLY_TOOL ASK_THEN_CLAIM"),
    _fails("forgets who was before", "ONLY_TOOL OTHER FORGETS"),
    _fails("takes a killed warden for an answer", "ONLY_TOOL WARDEN_DIES AFTER=2 GONE_IS_ANSWER"),
    _fails("takes a killed owner for an answer", "ONLY_TOOL OWNER_DIES GONE_IS_ANSWER"),
    _fails("margins too short for the guard", "ONLY_TOOL OTHER WARDEN_DIES"),
    _fails("the margin passes in sleep", "ONLY_TOOL SLEEP MARGIN_IN_BOOT_TIME"),
    # What holds would mean nothing if the good could not happen either: these places are reached.
    _fails("reached: a frozen tool is thawed, and nobody was asked", "ONLY_TOOL REACH_THAW"),
    _fails("reached: in effect, because the warden answered", "ONLY_TOOL REACH_ANSWERED"),
    _fails("reached: in effect, after the lease's end", "ONLY_TOOL OTHER REACH_WAITED"),
)


class Found(NamedTuple):
    """What the checker says. `trace`: the shortest way in which it goes wrong; empty: none is."""

    states: int
    trace: tuple[str, ...]


def is_there() -> bool:
    return shutil.which("spin") is not None and shutil.which("gcc") is not None


def check(case: Case) -> Found:
    """Look at every state that can be reached, breadth first."""
    defined = [f"-D{switch}" for switch in case.switches]
    with tempfile.TemporaryDirectory() as folder:

        def run(*command: str) -> str:
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
            assert done.returncode == 0 or command[0] == "spin", done.stdout + done.stderr
            return done.stdout

        shutil.copy(MODEL, folder)
        run("spin", "-a", *defined, MODEL.name)
        limits = ("-DSAFETY", "-DBFS", f"-DMEMLIM={_MEMORY_MIB}")
        run("gcc", "-w", *limits, "-o", "pan", "pan.c")
        said = run("./pan", "-E", "-n", "-w20")
        states = _STATES.search(said)
        assert states is not None, said
        trail = Path(folder, f"{MODEL.name}.trail")
        if not trail.exists():
            assert "Search not completed" not in said, said
            return Found(int(states[1]), ())
        told = run("spin", "-T", "-B", "-k", trail.name, *defined, MODEL.name)
    return Found(int(states[1]), tuple(told.partition("\nspin:")[0].splitlines()))
