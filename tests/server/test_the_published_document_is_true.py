"""GET /openapi.json says what is taken and answered. Somebody who knows nothing else tries it."""

# pyright: basic, reportAttributeAccessIssue=false
# (schemathesis says little of its types)

import asyncio
import warnings
from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import Case
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from pullcord import Context, RunState
from pullcord.server.routes import ROUTES
from tests.server.running_server import BOUND_S, RunningServer, running_server
from tests.storage.campaign import FULL

EXAMPLES: Final = 100 if FULL else 4
CHECKS: Final = [
    not_a_server_error,
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
]


async def asks(ctx: Context, given: Any) -> Any:
    """Waits for an answer."""
    await ctx.step("look", looked)
    await ctx.say("I have looked.")
    return await ctx.ask("Which one?")


async def looked() -> str:
    return "seen"


@pytest.mark.campaign
@pytest.mark.timeout(900)
async def test_whatever_the_document_allows_is_answered_as_it_says(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(900 if FULL else BOUND_S),
        running_server(tmp_path, asks=asks) as there,
    ):
        run = await there.start("asks")
        await run.wait_for(RunState.WAITING)
        document = (await there.get("/openapi.json")).json
        assert {f"{r.method} {r.path}" for r in ROUTES} == {
            f"{method.upper()} {path}"
            for path, ways in document["paths"].items()
            for method in ways
        }
        tried = await asyncio.to_thread(explored, there, document, run.id)
        print(f"{tried} requests")
        await there.is_well()


def explored(there: RunningServer, document: dict[str, Any], run: str) -> int:
    """Try every operation; return how many requests that were."""
    tried = 0
    streams = {r.path for r in ROUTES if r.streams}  # they have no end; see the tests of streams
    schema = schemathesis.openapi.from_dict(document)
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path in streams or operation.path == "/session/end":
            continue

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            database=None,
            derandomize=not FULL,
            phases=[Phase.generate],
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        )
        @given(case=operation.as_strategy())
        def one(case: Case) -> None:
            nonlocal tried
            for known in (False, True):
                if known and "run" in case.path_parameters:
                    case.path_parameters["run"] = run
                headers = {"Authorization": there.headers()["Authorization"]}
                answer = case.call(base_url=f"http://{there.name}", headers=headers)
                case.validate_response(answer, checks=CHECKS)
                tried += 1

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what a library of the tests has to say of itself
            one()
    return tried
