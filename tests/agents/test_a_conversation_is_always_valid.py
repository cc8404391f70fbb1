"""The one place that writes, reads and mends conversations: nothing a provider refuses gets out."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai import messages as m

from pullcord import AgentConfig as Registered
from pullcord import RunState
from pullcord.adapters.conversation import apply_delta, delta
from pullcord.agents.pydantic_ai import PydanticAgent, check_messages, mended
from pullcord.agents.pydantic_ai.dialect import DIALECT
from pullcord.agents.pydantic_ai.messages import Messages
from pullcord.core.events import TextEnded
from pullcord.testing.scripted import Delay, Say, ScriptedModel
from tests.agents.scripted_agents import QUICK, plain, runtime_of
from tests.runs.observed_runs import happened, runtime_with, shown


def user(text: str) -> m.ModelRequest:
    return m.ModelRequest([m.UserPromptPart(text)])


def call(name: str, args: Any = "{}") -> m.ToolCallPart:
    return m.ToolCallPart("tool", args, name)


def result(name: str) -> m.ToolReturnPart:
    return m.ToolReturnPart("tool", "done", name)


POISONED: dict[str, Messages] = {
    "a call without a result": [user("go"), m.ModelResponse([call("c1")])],
    "one of two": [
        user("go"),
        m.ModelResponse([call("c1"), call("c2")]),
        m.ModelRequest([result("c1")]),
    ],
    "a result without a call": [user("go"), m.ModelRequest([result("c9"), m.UserPromptPart("x")])],
    "half of the arguments": [
        user("go"),
        m.ModelResponse([call("c1", '{"a": ')], state="interrupted"),
    ],
    "a call that was cut": [
        user("go"),
        m.ModelResponse([m.TextPart("I will"), call("c1")], state="interrupted"),
    ],
    "thinking without its end": [
        user("go"),
        m.ModelResponse(
            [m.ThinkingPart("hm", provider_name="anthropic"), m.TextPart("So")], state="interrupted"
        ),
    ],
    "nothing": [user("go"), m.ModelResponse([]), user("again")],
    "an empty text": [user("go"), m.ModelResponse([m.TextPart("")]), user("again")],
}


@pytest.mark.parametrize("messages", POISONED.values(), ids=POISONED)
def test_a_poisoned_conversation_is_found_and_mended(messages: Messages) -> None:
    is_open = messages is POISONED["a call without a result"]
    assert check_messages(messages) or is_open
    again = mended([*messages, user("next")])
    assert check_messages(again) == []
    assert mended(again) == again
    assert again[-1].parts[-1] == messages_end(again)
    for message in messages:  # what was said is not lost
        for part in message.parts:
            if isinstance(part, m.UserPromptPart | m.TextPart) and part.content:
                assert any(part in kept.parts for kept in again)


def messages_end(messages: Messages) -> Any:
    last = messages[-1].parts[-1]
    assert isinstance(last, m.UserPromptPart)
    assert last.content == "next"
    return last


async def test_a_conversation_from_elsewhere_can_be_gone_on_with() -> None:
    model = ScriptedModel(["Yes."])
    agent = Agent(model, name="talker")
    history = m.ModelMessagesTypeAdapter.dump_python(POISONED["one of two"], mode="json")
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, {"prompt": "go on?", "messages": history})
        assert await run.result() == "Yes."
    assert check_messages(model.requests[0]) == []
    assert plain(model.requests[0])[-1] == ("user", "go on?")


_parts = st.one_of(
    st.builds(m.TextPart, st.text(max_size=5)),
    st.builds(m.ThinkingPart, st.text(max_size=5), signature=st.sampled_from([None, "s"])),
    st.builds(
        m.ToolCallPart,
        st.just("tool"),
        st.sampled_from(["{}", '{"a": 1}', '{"a"', "[]", ""]),
        st.sampled_from(["c1", "c2", "c3"]),
    ),
)
_responses = st.builds(
    m.ModelResponse,
    st.lists(_parts, max_size=3),
    state=st.sampled_from(["complete", "interrupted", "incomplete"]),
)
_requests = st.builds(
    m.ModelRequest,
    st.lists(
        st.one_of(
            st.builds(m.UserPromptPart, st.text(min_size=1, max_size=5)),
            st.builds(result, st.sampled_from(["c1", "c2", "c3"])),
        ),
        max_size=3,
    ),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(_responses, _requests), max_size=6))
def test_whatever_it_is_it_can_be_mended(messages: Messages) -> None:
    assert check_messages(mended([user("first"), *messages, user("next")])) == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.lists(_requests, max_size=3)), max_size=6))
def test_what_is_stored_of_a_conversation_makes_it_whole_again(steps: list[Any]) -> None:
    known: Messages = []
    found: Messages = []
    for keep, new in steps:
        messages = [*known[:keep], *new]
        apply_delta(found, delta(known, messages, DIALECT), DIALECT)
        assert found == messages == known


@pytest.mark.parametrize("rest", [" and the rest.", "The first half and the rest."])
async def test_an_answer_that_was_cut_is_in_the_next_request_and_gone_on_with(rest: str) -> None:
    model = ScriptedModel([[Say("The first"), Delay()], [Say(" half"), Delay()], [Say(rest)]])
    async with runtime_with(agent=Agent(model, name="talker"), timing=QUICK) as runtime:
        run = await runtime.start("agent", "write")
        for seen_of_it in ("The first", " half"):
            await shown(run, seen_of_it)
            await run.pause(now=True)
            await run.wait_for(RunState.PAUSED)
            await run.resume()
        assert await run.result() == "The first half and the rest."
    assert plain(model.requests[1])[-2:-1] == [("text", "The first")]
    assert plain(model.requests[2])[-2:-1] == [("text", "The first half")]
    assert "Go on with it from exactly that place" in plain(model.requests[2])[-1][1]


async def test_an_agent_may_say_that_an_answer_is_asked_for_again() -> None:
    model = ScriptedModel([[Say("The first half"), Delay()], [Say("All of it.")]])
    body = PydanticAgent(Agent(model, name="talker"), continues=False)
    async with runtime_with(agent=Registered(body), timing=QUICK) as runtime:
        run = await runtime.start("agent", "write")
        await shown(run, "The first half")
        await run.pause(now=True)
        await run.wait_for(RunState.PAUSED)
        await run.resume()
        assert await run.result() == "All of it."
    assert plain(model.requests[1]) == plain(model.requests[0])


async def test_an_answer_that_was_cut_is_gone_on_with_where_the_provider_can() -> None:
    model = ScriptedModel([[Say("The first half"), Delay()], [Say(" and the rest.")], "ok"])
    body = PydanticAgent(Agent(model, name="talker"), continues=True)
    async with runtime_with(agent=Registered(body), timing=QUICK) as runtime:
        run = await runtime.start("agent", "write", thread="t1")
        await shown(run, "The first half")
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        await run.resume()
        assert await run.result() == "The first half and the rest."
        texts = await happened(runtime, run.id, TextEnded)
        await (await runtime.start("agent", "next", thread="t1")).result()
    assert [(text.text, text.complete) for text in texts] == [
        ("The first half", False),
        (" and the rest.", True),
    ]
    assert plain(model.requests[1])[-1] == ("text", "The first half")
    assert plain(model.requests[2])[1] == ("text", "The first half and the rest.")
