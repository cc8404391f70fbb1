"""The churn analyst: a Pydantic AI agent that chooses its own steps, thinks, and costs money."""

from typing import Any, Final

from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.models import Model, infer_model

import pullcord
from pullcord.demo.memo import CHANNEL, TO
from pullcord.demo.office import Office
from pullcord.demo.script import answer, size
from pullcord.demo.speech import PRICE, WORD_S
from pullcord.demo.tools import (
    create_draft,
    fetch_customers,
    join_mrr,
    post_to_channel,
    score_churn,
    send_memo,
)
from pullcord.errors import InvalidInput
from pullcord.limits import MaxSteps, Spent
from pullcord.testing.scripted import ScriptedModel

ABOUT: Final = "Finds out who is about to leave: a model that thinks, spends and calls tools."
_INSTRUCTIONS: Final = f"""\
You are the churn analyst of Northbeam, a small software company. Find out which customers are
about to leave, and tell the people who can do something about it.

Work in this order: fetch_customers, join_mrr, score_churn, then post_to_channel (one line to
{CHANNEL}: how many, how much a month, who first), then write the memo as your answer to the
user and keep it with create_draft, then send_memo to {TO}. One call at a time, and before each
one a short sentence that says what you are about to do.

If you are told to look at one region (EU, US, APAC), pass it as `region`, begin again with
fetch_customers and name only customers of that region. Post nothing twice. If sending is denied,
say so and stop. End with one sentence that names the customers at risk."""


def analyst(model: str | None, pace: float) -> pullcord.AgentConfig:
    """Return it, with the scripted model or a real one."""
    agent = Agent[Any, str](
        _scripted(pace) if model is None else _real(model),
        name="churn-analyst",
        description=ABOUT,
        instructions=_INSTRUCTIONS,
        deps_type=Office,
        tools=[
            fetch_customers,
            join_mrr,
            score_churn,
            post_to_channel,
            create_draft,
            send_memo,
        ],
    )
    cap = Spent(usd=2, price=PRICE) if model is None else Spent(usd=2, lenient=True)
    return pullcord.AgentConfig(
        agent,
        deps=lambda: Office(pace),
        limits=MaxSteps(40) | cap,
        on_exhausted="pause_and_ask",
    )


def _scripted(pace: float) -> Model:
    return ScriptedModel(answer, name="scripted", keep=False, chunk_s=WORD_S * pace, reads=size)


def _real(model: str) -> Model:
    try:
        return infer_model(model)
    except (UserError, ImportError, ValueError) as error:
        raise InvalidInput(f"Cannot use the model {model!r}: {error}") from error
