"""The list: who needs a person first, then the newest; changed run by run, under a still finger."""

from collections.abc import Iterable

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from pullcord.core.commands import Cancel, Pause, Rename
from pullcord.core.events import Completed, Created, Record
from pullcord.core.fold import replay
from pullcord.core.show.panel import Panel, panel
from pullcord.core.states import RunState
from pullcord.core.stops import StopShown, Viewer, decode_entry
from pullcord.killswitch.flags import Scope, new_note
from pullcord.tui.local_source import LocalSource
from pullcord.tui.roster import Roster, needs_somebody
from tests.tui.sample_store import SampleStore
from tests.tui.screen import agrees, looking


def made(run: str, *, created_ms: int, seq: int = 1, wants: int = 0, ended: bool = False) -> Panel:
    """A panel of which only this matters to a list."""
    born = replay(run, [Record(run, 1, 5, 0, Created(agent="churn", thread="t"))])
    plain = panel(born, born.used_at(0), now_ms=0, wall_ms=0, driven=True)
    return msgspec.structs.replace(
        plain, created_at_ms=created_ms, seq=seq, wants=wants, ended=ended
    )


PANELS = st.builds(
    made,
    st.sampled_from(["a", "b", "c", "d", "e", "f"]),
    created_ms=st.integers(0, 3),
    seq=st.integers(1, 5),
    wants=st.integers(0, 1),
    ended=st.booleans(),
)


@settings(max_examples=300)
@given(st.lists(PANELS, max_size=30), st.booleans(), st.sampled_from(["", "a", "c"]))
def test_one_change_at_a_time_is_the_same_as_sorting_it_all(
    panels: list[Panel], living_only: bool, kept: str
) -> None:
    roster = Roster()
    roster.kept = kept
    roster.narrow("", living_only=living_only)
    latest: dict[str, Panel] = {}
    for one in panels:
        if one.run in latest:  # when a run was made does not change
            one = msgspec.structs.replace(one, created_at_ms=latest[one.run].created_at_ms)
        before = [roster.at(n) for n in range(len(roster))]
        stayed = roster.take([one], 0.0)
        if one.run not in latest or one.seq >= latest[one.run].seq:
            latest[one.run] = one
        shown = [
            p
            for p in latest.values()
            if p.run == kept or not (living_only and p.ended and not needs_somebody(p))
        ]
        shown.sort(key=lambda p: (not needs_somebody(p), -p.created_at_ms, p.run))
        after = [roster.at(n) for n in range(len(roster))]
        assert after == [p.run for p in shown]
        assert stayed is None or after == before
        assert [roster.place(run) for run in after] == list(range(len(after)))
    assert roster.needing == sum(map(needs_somebody, latest.values()))
    assert roster.living == sum(not p.ended for p in latest.values())


class Counting(LocalSource):
    """A source that notes what it is asked for."""

    def __init__(self, sample: SampleStore) -> None:
        super().__init__(sample.journal, me="ana", name="runs.db")
        self.pages = 0
        self.asked: list[str] = []

    async def listed(
        self, states: Iterable[RunState], *, before: str | None, limit: int
    ) -> list[Panel]:
        self.pages += 1
        return await super().listed(states, before=before, limit=limit)

    async def panels(self, *run_ids: str) -> list[Panel]:
        self.asked.extend(run_ids)
        return await super().panels(*run_ids)


async def test_a_change_costs_one_look_at_one_run_not_a_reload(sample: SampleStore) -> None:
    await sample.many(300)
    await sample.report("r1")
    source = Counting(sample)
    async with looking(sample, source=source) as eyes:
        await eyes.look_at("r1")
        pages = source.pages
        source.asked.clear()
        await sample.journal.command("r1", Pause(by="ben", reason="look at this"))
        await eyes.sees("◐ Pausing by ben")
        assert source.pages == pages
        assert set(source.asked) <= {"r1", *eyes.app.runs.in_view()}
        assert len(source.asked) < 100


async def test_a_run_that_is_started_elsewhere_appears(sample: SampleStore) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await sample.report("r2")
        await eyes.until(lambda: len(eyes.app.roster) == 2)
        assert eyes.app.roster.kept == "r1"  # the finger stays where it was


async def test_the_selected_run_stays_under_the_finger_when_the_order_changes(
    sample: SampleStore,
) -> None:
    for run in ("r1", "r2", "r3"):
        await sample.report(run)
    async with looking(sample) as eyes:
        await eyes.look_at("r2")
        await sample.waiting("r4")
        await eyes.sees("1 needs you")
        assert eyes.app.roster.at(0) == "r4"
        assert eyes.app.bar.panel is not None
        assert eyes.app.bar.panel.run == "r2"
        selected = [line for line in eyes.lines if line.startswith("›")]
        assert len(selected) == 1
        assert "● Running" in selected[0]


async def test_only_living_runs_are_listed_but_the_selected_one_stays(sample: SampleStore) -> None:
    await sample.completed("r1")
    await sample.working("r2")
    await sample.report("r3")
    async with looking(sample) as eyes:
        await eyes.look_at("r2")
        await eyes.press("l")
        assert [eyes.app.roster.at(n) for n in range(2)] == ["r3", "r2"]
        await sample.add("r2", Completed())
        await eyes.sees("✓ Completed")
        assert eyes.app.roster.place("r2") is not None  # no other run came under the finger
        await eyes.press("up")
        assert eyes.app.roster.place("r2") is None
        await eyes.press("l")
        assert len(eyes.app.roster) == 3


async def test_words_narrow_the_list_and_esc_widens_it_again(sample: SampleStore) -> None:
    await sample.waiting("r1")
    await sample.limited("r2")
    await sample.report("r3")
    async with looking(sample) as eyes:
        await eyes.look_at("r3")
        await eyes.press("/")
        await eyes.write("mailer wait")
        assert [eyes.app.roster.at(n) for n in range(len(eyes.app.roster))] == ["r1", "r3"]
        await eyes.press("enter", "up")  # the keys are the run's again
        assert eyes.app.roster.kept == "r1"
        await eyes.press("escape")
        assert len(eyes.app.roster) == 3


async def test_a_title_stands_beside_its_run_and_finds_it(sample: SampleStore) -> None:
    await sample.report("r1")
    await sample.completed("r2")
    async with looking(sample) as eyes:
        for run, title in (("r1", "churn in May"), ("r2", "churn in June")):
            await sample.journal.command(run, Rename(by="ben", title=title))
            await eyes.sees(title)
        await eyes.look_at("r1")
        assert "churn in May · r1 · " in eyes.text  # over the bar
        await eyes.press("/")
        await eyes.write("june")
        assert [eyes.app.roster.at(n) for n in range(len(eyes.app.roster))] == ["r2", "r1"]


async def test_an_ended_run_that_needs_somebody_is_not_hidden_with_the_ended(
    sample: SampleStore,
) -> None:
    await sample.troubled("r1")
    await sample.report("r2")
    async with looking(sample) as eyes:
        await eyes.press("l")
        assert eyes.app.roster.at(0) == "r1"
        await eyes.sees("1 to look at")


async def test_what_somebody_else_does_is_on_the_bar_and_the_key_means_what_it_says(
    sample: SampleStore,
) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("c")
        await eyes.sees("any other key lets go")
        await sample.journal.command("r1", Cancel(by="ben"))
        await eyes.sees("◌ Cancelling by ben")
        assert "any other key lets go" not in eyes.text  # it would mean Stop now, and was not aimed
        await eyes.press("c", "escape")
        eyes.now.advance(1)
        await eyes.press("c")
        await eyes.sees("Stop now r1: kills the tool, may leave it half done")
        await eyes.press("escape")


async def shown_to(sample: SampleStore, run: str) -> list[StopShown]:
    acts = [
        decode_entry(row.payload or b"").act for row in await sample.journal.stop_log.rows(run=run)
    ]
    return [act for act in acts if isinstance(act, StopShown)]


async def test_whoever_looks_at_a_run_when_it_is_stopped_is_in_the_stop_log(
    sample: SampleStore,
) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.whole()
        await eyes.press("2")
        await eyes.sees("The largest of them is")
        seen = (await sample.journal.head("r1")).seq
        await sample.journal.command("r1", Cancel(by="bo"))
        while not (noted := await shown_to(sample, "r1")):
            await eyes.sees("Cancelling")
    [said] = noted
    text = "Of 1,204 customers, 37 are at risk. The largest of them is "
    viewer = Viewer(who="ana", via="top", seq=seen, said={"say-1": len(text)})
    assert said == StopShown(asked_seq=seen + 1, viewers=(viewer,))


async def test_while_the_kill_switch_is_engaged_it_is_the_second_line(sample: SampleStore) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.whole()
        assert "kill switch" not in eyes.text
        flags = sample.journal.kill_switch.flags
        flags.raise_it(Scope(), new_note(by="bo", reason="fire", via="terminal"))
        await sample.journal.command("r1", Pause(by="bo"))  # as whoever pulls it has it held
        await eyes.until(
            lambda: eyes.lines[1].startswith("■ The kill switch is engaged (by bo: fi")
        )
        agrees("narrow-kill-switch", eyes.text)
        flags.lower(Scope())
        await sample.paused("r2")
        await eyes.until(lambda: "kill switch" not in eyes.text)
