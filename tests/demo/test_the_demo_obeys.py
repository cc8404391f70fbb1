"""The demo's agents, through everything that its page lets people do to them."""

from pathlib import Path

import pytest

from pullcord import RunState
from pullcord.core.events import PauseRequested, StepFinished, StepStarted, TextEnded
from pullcord.core.limits import caps_as_condition
from pullcord.demo.memo import TO
from pullcord.demo.office import lines
from pullcord.limits import MaxSteps
from tests.demo.show import ANALYST, BOTH, REPORT, allow, drafts, named_in, posted, show
from tests.runs.observed_runs import happened, question, seen, shown

each = pytest.mark.parametrize("name", BOTH)


# --- undisturbed ---


@each
async def test_it_ends_with_a_memo_that_somebody_allowed(
    name: str, tmp_path: Path, files: Path
) -> None:
    async with show(tmp_path) as runtime:
        run = await runtime.start(name)
        await allow(run)
        result = await run.result()
        receipt = await run.receipt()
    assert named_in(result) == {"EU", "US", "APAC"}
    assert receipt.done == (
        "fetch_customers",
        "join_mrr",
        "score_churn",
        "post_to_channel",
        "create_draft",
        "send_memo",
    )
    subject = "Churn risk, all regions: 7 customers to call"
    assert lines("outbox.jsonl") == [{"to": TO, "subject": subject}]
    assert len(posted()) == len(drafts(files)) == 1
    assert receipt.cost.usd_micros > 100_000
    assert receipt.cost.unknown_calls == 0


async def test_the_report_has_a_plan_and_the_analyst_has_thoughts(tmp_path: Path) -> None:
    async with show(tmp_path) as runtime:
        report, analyst = await runtime.start(REPORT), await runtime.start(ANALYST)
        await allow(report)
        await allow(analyst)
        await report.result()
        await analyst.result()
        [plan] = (await report.snapshot()).plans.values()
        texts = await happened(runtime, analyst.id, TextEnded)
    titles = ["Fetch customer list", "Join against MRR table", "Score churn risk"]
    assert [item.title for item in plan.items] == [*titles, "Write summary memo"]
    assert len([text for text in texts if text.part.startswith("think-")]) == 2
    assert any("30/30" in text.text for text in texts)  # what the process has put out


@each
async def test_it_looks_only_at_what_it_is_asked_about(name: str, tmp_path: Path) -> None:
    async with show(tmp_path) as runtime:
        run = await runtime.start(name, "Who in Asia is about to leave?")
        await allow(run)
        assert named_in(await run.result()) == {"APAC"}


# --- redirected ---


@each
async def test_a_redirect_in_the_middle_of_its_words_leads_to_eu_customers(
    name: str, tmp_path: Path
) -> None:
    said = {REPORT: "have not logged in", ANALYST: "Logins say"}[name]
    async with show(tmp_path, pace=0.5) as runtime:
        run = await runtime.start(name, run_id="r1")
        await shown(run, said)
        await run.pause(by="ana", reason="all of them?")
        await run.wait_for(RunState.PAUSED)
    async with show(tmp_path) as runtime:  # another process, if you like; and nobody has to wait
        run = await runtime.get("r1")
        await run.redirect("EU customers only", by="ana")
        await run.resume(by="ana")
        await allow(run)
        assert named_in(await run.result()) == {"EU"}
        [asked] = lines("outbox.jsonl")
        texts = await happened(runtime, run.id, TextEnded)
    assert asked["subject"] == "Churn risk, EU: 3 customers to call"
    assert any("Understood: EU from here on." in text.text for text in texts)
    assert posted() == [
        "Churn, EU: 3 customers at risk, $14,830 a month. Call Fjordline Freight first."
    ]


@each
async def test_a_redirect_while_somebody_is_asked_gives_another_memo_to_ask_about(
    name: str, tmp_path: Path, files: Path
) -> None:
    async with show(tmp_path) as runtime:
        run = await runtime.start(name)
        await question(run, tool="send_memo")
        await run.redirect("EU only, please", by="ana")
        await allow(run, nth=2)
        assert named_in(await run.result()) == {"EU"}
    assert [line["subject"] for line in lines("outbox.jsonl")] == [
        "Churn risk, EU: 3 customers to call"
    ]
    assert any("Churn risk, EU" in draft for draft in drafts(files))


@each
async def test_it_says_so_when_it_does_not_understand(name: str, tmp_path: Path) -> None:
    async with show(tmp_path) as runtime:
        run = await runtime.start(name)
        await question(run, tool="send_memo")
        await run.redirect("Write it in Latin", by="ana")
        await allow(run, nth=2)
        await run.result()
        texts = await happened(runtime, run.id, TextEnded)
    assert any("I heard “Write it in Latin”. I am only a script" in text.text for text in texts)


# --- cancelled ---


@each
async def test_a_cancel_discards_the_draft_and_names_what_stays(
    name: str, tmp_path: Path, files: Path
) -> None:
    async with show(tmp_path) as runtime:
        run = await runtime.start(name)
        await question(run, tool="send_memo")
        assert len(drafts(files)) == len(list(files.glob("joined-*.csv"))) == 1
        await run.cancel(by="ana", reason="wrong path")
        receipt = await run.receipt()
    assert receipt.undone == ("join_mrr", "create_draft")
    stays = [
        step.name
        for step in receipt.steps
        if step.heading == "done" and step.effect == "once" and not step.undoable
    ]
    assert stays == ["post_to_channel"]
    assert receipt.not_attempted == ("send_memo (withdrawn)",)
    assert sorted(path.name for path in files.iterdir()) == ["channel.jsonl"]


async def test_a_pause_freezes_the_scoring_and_a_cancel_kills_it(tmp_path: Path) -> None:
    async with show(tmp_path) as runtime:
        run = await runtime.start(REPORT, run_id="r1", limits=MaxSteps(2))
        await run.wait_for(RunState.PAUSED)
    async with show(tmp_path, pace=1) as runtime:
        run = await runtime.get("r1")
        await run.raise_limits({"steps": 40}, by="ana")
        await shown(run, "3/30")
        await run.pause(by="ana")
        paused = await run.receipt()
        await run.cancel(by="ana")
        receipt = await run.receipt()
    assert paused.under_way == ("score_churn",)
    assert receipt.interrupted == ("score_churn",)
    assert receipt.undone == ("join_mrr",)


# --- approved, edited, denied ---


@each
async def test_what_somebody_has_edited_is_sent_to_the_letter(name: str, tmp_path: Path) -> None:
    wanted = {"to": "bo@northbeam.example", "subject": "Seven calls"}
    async with show(tmp_path) as runtime:
        run = await runtime.start(name)
        asked = await question(run, tool="send_memo")
        await run.edit(asked, wanted, by="ana")
        assert lines("outbox.jsonl") == []
        await allow(run, nth=2)
        assert "bo@northbeam.example" in str(await run.result())
    assert lines("outbox.jsonl") == [wanted]


@each
async def test_what_is_denied_is_not_sent_and_the_draft_is_kept(
    name: str, tmp_path: Path, files: Path
) -> None:
    async with show(tmp_path) as runtime:
        run = await runtime.start(name)
        asked = await question(run, tool="send_memo")
        await run.deny(asked, by="ana", reason="not before Monday")
        assert "not before Monday" in str(await run.result())
    assert lines("outbox.jsonl") == []
    assert len(drafts(files)) == 1


# --- limits ---


@each
@pytest.mark.parametrize(("cap", "low"), [("usd", 0.05), ("steps", 3)])
async def test_a_cap_pauses_it_and_can_be_raised(
    name: str, cap: str, low: float, tmp_path: Path
) -> None:
    async with show(tmp_path) as runtime:
        run = await runtime.start(name, limits=caps_as_condition({cap: low}))
        await seen(run, PauseRequested, source="limit")
        await run.wait_for(RunState.PAUSED)
        assert posted() == []
        await run.raise_limits({cap: 40}, by="ana")
        await allow(run)
        await run.result()
    assert len(posted()) == 1


async def test_at_its_limit_the_analyst_says_what_there_is(tmp_path: Path) -> None:
    async with show(tmp_path) as runtime:
        run = await runtime.start(ANALYST, limits=MaxSteps(5), on_exhausted="wrap_up")
        said = await run.result()
    assert said.startswith("I have to stop here. So far, about all regions: fetch_customers")


async def test_it_can_be_asked_aside(tmp_path: Path) -> None:
    async with show(tmp_path) as runtime:
        run = await runtime.start(ANALYST)
        await question(run, tool="send_memo")
        aside = await run.ask_aside("How far are you?", by="ana")
        assert "score_churn, post_to_channel, create_draft" in await aside.result()


# --- the thread goes on ---


@each
async def test_the_next_run_on_its_thread_posts_nothing_twice(name: str, tmp_path: Path) -> None:
    async with show(tmp_path) as runtime:
        first = await runtime.start(name, "Who in the EU is about to leave?")
        await allow(first)
        await first.result()
        thread = (await first.snapshot()).thread
        second = await runtime.start(name, "And what has changed since?", thread=thread)
        await allow(second)
        assert named_in(await second.result()) == {"EU"}
    assert len(posted()) == 1
    assert len(lines("outbox.jsonl")) == 2


@each
async def test_after_a_cancel_the_thread_goes_on(name: str, tmp_path: Path) -> None:
    async with show(tmp_path) as runtime:
        first = await runtime.start(name, "Who is about to leave?")
        await question(first, tool="send_memo")
        await first.cancel(by="ana", reason="wrong path")
        await first.receipt()
        thread = (await first.snapshot()).thread
        second = await runtime.start(name, "Only the EU", thread=thread)
        await allow(second)
        assert named_in(await second.result()) == {"EU"}
        done = await happened(runtime, second.id, StepFinished)
        begun = {e.step: e.name for e in await happened(runtime, second.id, StepStarted)}
    assert "fetch_customers" in {begun[event.step] for event in done}
