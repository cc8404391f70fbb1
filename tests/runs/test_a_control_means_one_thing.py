"""What a control means for a call in flight: the event loop, which sees the run's records, and the
control thread, which hears one control after the other, come to the same order."""

from itertools import product

import pytest

from pullcord.core.commands import Cancel, Command, Pause, Redirect, Resume
from pullcord.core.decide import decide
from pullcord.core.events import Claimed, Created, Event, Record, StepStarted
from pullcord.core.fold import evolve
from pullcord.core.run import Run
from pullcord.runtime.steps.manner import Manner
from pullcord.runtime.steps.orders import ControlsAsked, Order, asked_of, order_for

PRESSES: dict[str, Command] = {
    "pause": Pause(by="ana"),
    "pause now": Pause(by="ana", now=True),
    "resume": Resume(by="ana"),
    "tell": Redirect(by="ana", instruction="the other way"),
    "cancel": Cancel(by="ana"),
    "cancel now": Cancel(by="ana", now=True),
}
MANNERS = [
    Manner(effect=effect, on_pause=on_pause, on_redirect=on_redirect)
    for effect, on_pause, on_redirect in product(
        ("once", "none"), ("finish", "cancel", "freeze", "hold"), ("finish", "cancel")
    )
]


def with_a_call() -> Run:
    run = Run(id="r1")
    for event in (
        Created(agent="a", thread="t"),
        Claimed(owner="me", epoch=1),
        StepStarted(step="s1", name="call"),
    ):
        _add(run, event)
    return run


def _add(run: Run, event: Event) -> None:
    evolve(run, Record(run_id=run.id, seq=run.seq + 1, at_ms=0, epoch=1, event=event))


@pytest.mark.parametrize("presses", list(product(PRESSES, repeat=3)), ids="-".join)
def test_loop_and_thread_come_to_the_same_order(presses: tuple[str, ...]) -> None:
    run, heard = with_a_call(), ControlsAsked()
    begun = run.seq
    for press in presses:
        for event in decide(run, PRESSES[press]).events:
            _add(run, event)
            heard = heard.and_then(event)  # pyright: ignore[reportArgumentType]
        seen = asked_of(run, since=begun)
        for manner in MANNERS:
            assert order_for(seen, manner) == order_for(heard, manner), (presses, manner)


@pytest.mark.parametrize(
    ("asked", "manner", "order"),
    [
        (ControlsAsked(), Manner(), "go on"),
        (ControlsAsked("pause"), Manner(on_pause="freeze"), "freeze"),
        (ControlsAsked("pause"), Manner(on_pause="cancel"), "rest"),
        (ControlsAsked("pause now"), Manner(on_pause="freeze", effect="none"), "stop"),
        (ControlsAsked("pause now"), Manner(on_pause="freeze", effect="once"), "freeze"),
        (
            ControlsAsked("pause", is_told=True),
            Manner(on_pause="hold", on_redirect="cancel"),
            "redirect",
        ),
        (ControlsAsked("", is_told=True), Manner(on_redirect="finish"), "go on"),
        (ControlsAsked("cancel", is_told=True), Manner(on_redirect="cancel"), "stop"),
        (ControlsAsked("cancel now"), Manner(), "hurry"),
    ],
)
def test_what_is_asked_means(asked: ControlsAsked, manner: Manner, order: Order) -> None:
    assert order_for(asked, manner) == order
