"""What the demo needs, what it says when that is missing, and how it reads what it is told."""

import os
from argparse import Namespace
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from pullcord.cli.commands import serve
from pullcord.demo.agents import agents, missing
from pullcord.demo.customers import Region, at_risk, customers
from pullcord.demo.focus import Focus
from pullcord.errors import InvalidInput
from tests.demo.show import ANALYST, BOTH, REPORT


def test_there_are_two_agents_and_each_takes_a_question() -> None:
    ready = agents(pace=0)
    assert tuple(ready) == BOTH
    assert missing() == ""
    assert all(agent.wants_input for agent in ready.values())


def test_without_pydantic_ai_there_is_the_report_and_a_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nothing(_name: str) -> None:
        return None

    monkeypatch.setattr("pullcord.demo.agents.find_spec", nothing)
    assert list(agents()) == [REPORT]
    assert "pip install 'pullcord[pydantic-ai]'" in missing()
    with pytest.raises(InvalidInput, match="pip install"):
        agents(model="openai:gpt-5")


def test_nobody_elses_banner_covers_the_link(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def begun(serving: Coroutine[Any, Any, int]) -> str:
        serving.close()
        return os.environ.get("PYDANTIC_AI_NO_BANNER", "")

    for name in ("PYDANTIC_AI_NO_BANNER", "PULLCORD_DEMO_FILES"):
        monkeypatch.setenv(name, "")  # so that it is put back
        monkeypatch.delenv(name)
    monkeypatch.setattr(serve, "in_a_loop", begun)
    asked = Namespace(model="", pace=0.0)
    assert serve._demo(asked, str(tmp_path / "demo.db")) == "1"  # pyright: ignore[reportPrivateUsage]


def test_a_model_of_ones_own_is_used_instead_of_the_script() -> None:
    assert agents(model="test")[ANALYST].function.model.system == "test"
    with pytest.raises(InvalidInput, match="Cannot use the model 'nobody:knows'"):
        agents(model="nobody:knows")


@pytest.mark.parametrize(
    ("words", "region"),
    [
        ("EU customers only", "EU"),
        ("only european ones", "EU"),
        ("not the EU, the US", "US"),
        ("USA", "US"),
        ("Asia first", "APAC"),
        ("join us on Monday", "all"),
        ("write it in Latin", "all"),
    ],
)
def test_a_region_is_found_in_what_is_said(words: str, region: Region) -> None:
    assert Focus().told(words).region == region


def test_a_focus_is_kept_until_somebody_says_otherwise() -> None:
    focus = Focus().told("EU customers only").told("top 2, please")
    assert (focus.region, focus.top, focus.title) == ("EU", 2, "EU, top 2")
    assert [one.name for one in focus.at_risk] == ["Fjordline Freight", "Bergfeld Maschinen"]
    assert focus.told("all regions again").region == "all"
    assert not focus.understands("write it in Latin")


def test_the_figures_are_the_same_everywhere() -> None:
    assert len(customers()) == sum(len(customers(one)) for one in ("EU", "US", "APAC")) == 30
    assert {one.name for one in at_risk()} == {
        one.name for region in ("EU", "US", "APAC") for one in at_risk(region)
    }
