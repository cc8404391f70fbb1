"""The same model-and-tool loop under LangGraph with its SQLite checkpointer.

`bench.agents` runs this file with the interpreter of an environment that has LangGraph and nothing
of Pullcord. It prints the CPU seconds of a step. (`python -m`: a module beside it is `secrets`.)
"""

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from langchain.agents import create_agent  # pyright: ignore[reportUnknownVariableType]
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver


class Scripted(BaseChatModel):
    """Calls the tool in each answer but the last."""

    steps: int
    made: int = 0

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **_: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self.made += 1
        answer = AIMessage("done")
        if self.made < self.steps:
            call = {"name": "note", "args": {"what": "x" * 100}, "id": f"call-{self.made}"}
            answer = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])

    async def _agenerate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        return self._generate(messages)


async def note(what: str) -> str:
    """Note something."""
    return what * 2


async def _run(store: Path, steps: int) -> float:
    async with AsyncSqliteSaver.from_conn_string(str(store)) as saver:
        agent = create_agent(Scripted(steps=steps), tools=[note], checkpointer=saver)
        thread: Any = {"configurable": {"thread_id": "t"}, "recursion_limit": 4 * steps}
        began = time.process_time()
        said: Any = {"messages": [{"role": "user", "content": "go"}]}
        # "sync": what a step gave is stored before the next one begins, as with Pullcord.
        await agent.ainvoke(said, thread, durability="sync")
        return (time.process_time() - began) / steps


async def main(steps: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        await _run(Path(folder) / "warm.db", 10)
        print(json.dumps(await _run(Path(folder) / "runs.db", steps)))


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
