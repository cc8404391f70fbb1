"""docs/bar.md names every attribute and every variable that the bar has, and no other."""

import re
from importlib.resources import files
from pathlib import Path

PAGE = (Path(__file__).parents[2] / "docs" / "bar.md").read_text()
BAR = (files("pullcord") / "web" / "pullcord-bar.js").read_text()


def section(heading: str) -> str:
    return PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def test_every_variable_is_there() -> None:
    variables = set(re.findall(r"--pullcord-[a-z-]+", BAR))
    assert set(re.findall(r"`(--pullcord-[a-z-]+)`", section("Make it yours"))) == variables


def test_every_attribute_is_there() -> None:
    known = re.search(r"observedAttributes=\[(.*?)\]", BAR)
    assert known
    attributes = set(re.findall(r"[a-z]+", known.group(1))) | {"theme"}  # read by its style alone
    rows = re.findall(r"^\| `([a-z]+)` \|", section("Attributes and properties"), re.MULTILINE)
    assert set(rows) == attributes


def test_every_event_is_there() -> None:
    emitted = set(re.findall(r"""emit\([`"']([a-z]+)[`"']""", BAR)) | {"panel"}
    rows = re.findall(r"^\| `pullcord:([a-z]+)` \|", section("Events"), re.MULTILINE)
    assert set(rows) == emitted
