"""The demo's agents by name. Without Pydantic AI there is one of them, and it says so."""

from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import pullcord
from pullcord.demo.office import Office
from pullcord.demo.report import churn_report
from pullcord.errors import InvalidInput
from pullcord.lazy_import import lazy_import
from pullcord.limits import MaxSteps, Spent

if TYPE_CHECKING:
    from pullcord.demo import analyst
else:
    analyst = lazy_import("pullcord.demo.analyst")

_MISSING: Final = (
    "The churn analyst needs Pydantic AI, which is not installed: pip install "
    "'pullcord[pydantic-ai]'. The churn report needs nothing."
)


def agents(*, model: str | None = None, pace: float = 1.0) -> dict[str, pullcord.AgentConfig]:
    """Return the agents to open a runtime with.

    `model` is a real one for the analyst, as Pydantic AI names it (`openai:gpt-5`); without it, it
    is scripted, and needs no key and no network. `pace`: 1 is as fast as one can read, 0 at full
    speed.

    Raises:
        InvalidInput: a model was named that cannot be used here.
    """
    report = pullcord.AgentConfig(
        churn_report,
        deps=lambda: Office(pace),
        limits=MaxSteps(40) | Spent(usd=2),
        on_exhausted="pause_and_ask",
    )
    if not missing():
        return {"churn-report": report, "churn-analyst": analyst.analyst(model, pace)}
    if model is not None:
        raise InvalidInput(f"Cannot use the model {model!r}. {missing()}")
    return {"churn-report": report}


def missing() -> str:
    """What to install to have both agents, in a sentence. Empty: nothing."""
    return "" if find_spec("pydantic_ai") else _MISSING
