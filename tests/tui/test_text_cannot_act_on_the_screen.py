"""Whatever a model, a tool or a person wrote: it is shown, and does nothing."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len

from pullcord.core.events import StepStarted
from pullcord.terminal.single_row import MARKS_MAX, single_row
from pullcord.tui.lines import Piece, cut, fit, flat, spread, width_of, wrapped
from tests.terminal.vt import acts_or_hides
from tests.tui.sample_store import SampleStore
from tests.tui.screen import looking

NASTY = [
    "\x1b[2J\x1b[H",  # clear the screen
    "\x1b]52;c;cm0gLXJm\x07",  # the clipboard
    "\x1b]8;;https://evil.example\x1b\\click\x1b]8;;\x1b\\",  # a link
    "\x9b2J",  # the same in one byte
    "line\rother",
    "\x08\x08\x08ok",
    "\u202egnp.exe",  # turned around
    "pay\u200bpal",  # nothing between them
    "\u2066x\u2069",
    "a\u034fb\u3164c\u2800",
    "\U000e0100\U000e0101",
    "[red]red[/red] [@click=app.exit]x[/]",  # markup
    "$text-error{}",
    "Z̸̢̛̖̬͖̮̙͈̯̲̑̓͌̎͒͘a",
    "\u2028\u2029",
    "\x01\x7f",
]


@given(st.text())
@example("\x1b[31m")
def test_nothing_unseen_is_left_in_what_is_row(text: str) -> None:
    made = single_row(text)
    assert not unsafe(made)
    assert single_row(made) == made


def unsafe(text: str) -> list[str]:
    """What of it would act or hide, by the Unicode database."""
    return [c for b, c in pairwise(f" {text}") if c in "\n\t" or acts_or_hides(c, b)]


@given(st.text(alphabet=st.characters(codec="utf-8")), st.integers(8, 60))
def test_what_is_wrapped_fits_and_loses_nothing(text: str, width: int) -> None:
    lines = wrapped(text, width)
    assert all(cell_len(line) <= width for line in lines)
    kept = "".join("".join(lines).split())
    assert kept == "".join("".join(map(single_row, text.split("\n"))).split()) or ("\r" in text)


@given(st.text(), st.text(), st.integers(0, 40))
def test_what_is_cut_fits(left: str, right: str, width: int) -> None:
    assert cell_len(cut(single_row(left), width)) <= width
    line = spread((Piece(flat(left)),), (Piece(flat(right, 10)),), width)
    assert width_of(fit(line, width)) <= width


def test_a_tower_of_accents_stays_on_its_line() -> None:
    tower = single_row("e" + "\u0301" * 100)
    assert tower.count("\u0301") == MARKS_MAX
    assert tower.count("\\u0301") == 100 - MARKS_MAX  # and none of it is hidden


@pytest.mark.parametrize("nasty", NASTY, ids=ascii)
async def test_it_is_on_the_screen_as_text_wherever_it_comes_from(
    sample: SampleStore, nasty: str
) -> None:
    await sample.waiting("r1", arg=nasty, to=nasty)
    step = StepStarted(step="s1", name=f"tool {nasty}", tool="x")
    await sample.working("r2", step)
    await sample.say("r2", "say-1", f"said {nasty} so")
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("\nsend_email(\n")
        seen = eyes.text
        await eyes.look_at("r2")
        for key in ("1", "2", "4"):
            await eyes.press(key)
            seen += eyes.text
        assert not unsafe(seen.replace("\n", " "))
        await eyes.press("1")
        assert " ".join(single_row(f"said {nasty} so").split())[:20] in " ".join(eyes.text.split())


async def test_markup_is_not_read(sample: SampleStore) -> None:
    await sample.working("r1", agent="a")
    await sample.say("r1", "say-1", "[bold red]stop[/] [@click=app.quit]here[/]")
    async with looking(sample) as eyes:
        await eyes.look_at("r1")
        await eyes.sees("[bold red]stop[/] [@click=app.quit]here[/]")
