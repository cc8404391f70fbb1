"""How far each viewer was when a stop was heard of: in a terminal, on a page, on its way."""

import asyncio
import sys
from pathlib import Path

from pullcord.core.commands import Cancel, Redirect
from pullcord.core.events import (
    Cancelled,
    InstructionSettled,
    StepInterrupted,
    StepStarted,
    TextEnded,
)
from pullcord.core.show.viewer_progress import ViewerProgress, shown
from pullcord.core.stops import LISTED_MAX, StopAsked, StopShown, Viewer, decode_entry
from pullcord.journal.journal import Journal
from pullcord.testing import ManualClock
from tests.cli.terminal import Terminal, agent
from tests.stoplog.sample import Hand

SAID = "Half of what it wanted to say"


async def seen(process: asyncio.subprocess.Process, text: str) -> None:
    """Wait until this was printed."""
    assert process.stdout
    printed = ""
    while text not in printed:
        more = await process.stdout.read(1000)
        assert more, printed
        printed += more.decode()


async def begun(here: Terminal, *words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pullcord", *words),
        env=here.env,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )


async def entries(journal: Journal, run: str) -> list[StopShown]:
    acts = [decode_entry(row.payload or b"").act for row in await journal.stop_log.rows(run=run)]
    return [act for act in acts if isinstance(act, StopShown)]


async def test_whoever_watches_in_a_terminal_is_a_viewer(tmp_path: Path) -> None:
    here = Terminal(tmp_path)
    async with Journal.open(here.store) as journal:
        hand = Hand(journal, ManualClock())
        claim = await hand.begin("r1", StepStarted(step="a", name="a"))
        await journal.live_text.say(claim.lease, "p1", SAID, offset=0)
        watching = await begun(here, "watch", "r1")
        await seen(watching, SAID)
        await journal.command("r1", Cancel(by="bo"))
        await seen(watching, "bo cancelled it")
        ended = TextEnded(part="p1", text=SAID, complete=False)
        await hand.add(claim, StepInterrupted(step="a"), ended, Cancelled())
        assert await watching.wait() == 0
        [said] = await entries(journal, "r1")
        again = await begun(here, "watch", "r1")  # whoever comes later has not watched it
        await seen(again, "cancelled")
        await again.wait()
        assert await entries(journal, "r1") == [said]
    viewer = Viewer(who="ana", via="terminal", seq=3, said={"p1": len(SAID)})
    assert said == StopShown(asked_seq=4, viewers=(viewer,))


async def test_a_redirect_that_cuts_a_confession_is_in_the_log_with_what_was_shown(
    tmp_path: Path,
) -> None:
    here = Terminal(tmp_path)
    async with Journal.open(here.store) as journal:
        hand = Hand(journal, ManualClock())
        claim = await hand.begin("r1")
        await journal.command("r1", Redirect(by="bo", instruction="be brief"))  # cuts nothing
        settled = InstructionSettled(instruction=3, outcome="delivered")
        await hand.add(claim, StepStarted(step="model-1", name="ask", model="m"), settled)
        await journal.live_text.say(claim.lease, "p1", SAID, offset=0)
        watching = await begun(here, "watch", "r1")
        await seen(watching, SAID)
        await journal.command("r1", Redirect(by="bo", instruction="stop that!"))
        await seen(watching, "stop that!")
        ended = TextEnded(part="p1", text=SAID, complete=False)
        await hand.add(claim, ended, StepInterrupted(step="model-1", redirected=True))
        await journal.command("r1", Cancel(by="bo"))
        settled = InstructionSettled(instruction=6, outcome="returned")
        await hand.add(claim, settled, Cancelled())
        assert await watching.wait() == 0
        entries = [
            decode_entry(row.payload or b"") for row in await journal.stop_log.rows(run="r1")
        ]
    about = [(entry.act.__struct_config__.tag, entry.seq) for entry in entries]
    assert about[0] == ("asked", 6)
    asked = entries[0].act
    assert isinstance(asked, StopAsked)
    assert (asked.verb, asked.by, asked.said) == ("redirect", "bo", {"p1": len(SAID)})
    [handed] = [a for e in entries if isinstance(a := e.act, StopShown) and a.asked_seq == 6]
    assert handed.viewers == (Viewer(who="ana", via="terminal", seq=5, said={"p1": len(SAID)}),)
    assert ("in_effect", 8) in about


async def test_so_is_whoever_runs_it(tmp_path: Path) -> None:
    here = Terminal(tmp_path)
    running = await begun(here, "run", agent("talks"), "--run-id", "r1")
    await seen(running, "half a ")
    async with Journal.open(here.store) as journal:
        await journal.command("r1", Cancel(by="bo"))
        assert await running.wait() == 3
        [said] = await entries(journal, "r1")
    [viewer] = said.viewers
    [count] = viewer.said.values()
    assert (viewer.who, viewer.via) == ("ana", "terminal")
    assert count >= len("half a ")


def test_what_is_on_its_way_is_not_called_handed() -> None:
    handed = ViewerProgress("ana", "page, session", seq=2)
    handed.text("p1", 10)
    assert handed.viewer() == Viewer(who="ana", via="page, session", seq=2, sending=True)
    handed.taken()
    handed.text("p1", 25)
    assert handed.viewer().said == {"p1": 10}
    handed.record(3, ended="p1")
    handed.taken()
    assert handed.viewer() == Viewer(who="ana", via="page, session", seq=3)


def test_of_very_many_viewers_those_who_were_furthest_are_named() -> None:
    watching = [ViewerProgress(f"v{number}", "api", seq=number) for number in range(LISTED_MAX + 5)]
    said = shown(4, watching)
    assert (len(said.viewers), said.others) == (LISTED_MAX, 5)
    assert [one.seq for one in said.viewers] == list(range(LISTED_MAX + 4, 4, -1))
