"""The module of a tool is imported in the tool's process: that starts no second program there, and
finds what the program found."""

from pathlib import Path

import pytest

import pullcord
from pullcord import RunState
from tests.runs.programs import run_program

BARE = """
import asyncio, pullcord

def crunch(n: int) -> int:
    return n * 2

async def send_mail() -> None:
    with open("mails", "a") as file:
        file.write("mail\\n")

async def agent(ctx):
    await ctx.step("send_mail", send_mail)
    return await ctx.tool(crunch, 21)

async def main():
    async with pullcord.open("runs.db", agents={"agent": agent}) as runtime:
        print(await (await runtime.start(agent, run_id="r1")).result())

START
"""

STARTS = {
    "bare": "asyncio.run(main())",
    "behind an error of its own": (
        "try:\n    asyncio.run(main())\nexcept BaseException:\n    raise SystemExit(3)"
    ),
    "without a block": (
        "runtime = pullcord.open('runs.db', agents={'agent': agent})\n"
        "async def go():\n    async with runtime: print(await (await runtime.start(agent, "
        "run_id='r1')).result())\nasyncio.run(go())"
    ),
    "as a server": (
        "import uvicorn\nfrom contextlib import asynccontextmanager\n"
        "from starlette.applications import Starlette\n"
        "runtime = pullcord.open('runs.db', agents={'agent': agent})\n"
        "@asynccontextmanager\nasync def life(_):\n    async with runtime:\n"
        "        try:\n            await (await runtime.start(agent, run_id='r1')).result()\n"
        "        except pullcord.PullcordError as e:\n            import sys; print(e, "
        "file=sys.stderr)\n        raise SystemExit(3)\n        yield\n"
        "uvicorn.run(Starlette(lifespan=life), port=0)"
    ),
}


@pytest.mark.parametrize("start", STARTS.values(), ids=list(STARTS))
async def test_a_program_without_a_guard_is_told_so_and_runs_once(
    start: str, tmp_path: Path
) -> None:
    ran = await run_program(tmp_path, "app.py", files={"app.py": BARE.replace("START", start)})
    assert ran.status != 0
    async with pullcord.open(tmp_path / "runs.db") as runtime:
        [head] = await runtime.list()
        assert (head.run_id, head.state) == ("r1", RunState.FAILED)
        made = await (await runtime.get("r1")).receipt()
    assert (tmp_path / "mails").read_text().count("mail") == 1
    assert made.failed == ("crunch",)
    for said in ('if __name__ == "__main__":', "app.py", "Nothing of 'crunch' was begun"):
        assert said in made.error
    if start == STARTS["bare"]:
        assert 'if __name__ == "__main__":' in ran.err


async def test_a_module_that_only_makes_a_runtime_and_its_server_has_tools(tmp_path: Path) -> None:
    """As docs/bar.md has it: nothing is opened in the process of the tool."""
    app = """
import os, pullcord
from pullcord.server import Grant, app

def crunch(n: int) -> list:
    return [n * 2, any("runs.db" in os.readlink(f"/proc/self/fd/{fd}")
                       for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and
                       os.path.exists(f"/proc/self/fd/{fd}"))]

async def agent(ctx):
    return await ctx.tool(crunch, 21)

runtime = pullcord.open("runs.db", agents={"agent": agent})
control = app(runtime, authorize=lambda request: Grant(by="ana", right="control"))
"""
    main = """
import asyncio, shop
async def main():
    async with shop.runtime as runtime:
        print(await (await runtime.start("agent")).result())
if __name__ == "__main__":
    asyncio.run(main())
"""
    ran = await run_program(tmp_path, "main.py", files={"shop.py": app, "main.py": main})
    assert (ran.status, ran.out.strip()) == (0, "[42, False]"), ran.err


async def test_a_tool_that_opens_a_runtime_is_told_that_it_cannot(tmp_path: Path) -> None:
    app = """
import asyncio, pullcord

def crunch() -> None:
    async def look():
        async with pullcord.open("runs.db") as runtime:
            pass
    asyncio.run(look())

async def agent(ctx):
    return await ctx.tool(crunch)

async def main():
    async with pullcord.open("runs.db", agents={"agent": agent}) as runtime:
        print(await (await runtime.start(agent, run_id="r1")).result())

if __name__ == "__main__":
    asyncio.run(main())
"""
    ran = await run_program(tmp_path, "app.py", files={"app.py": app})
    assert "StartedInTool: A runtime cannot be used in the process of a tool" in ran.err
    assert "run_in='thread'" in ran.err


PACKAGE = """
import asyncio, sys, pullcord
from .cfg import K

WORD = sys.argv[1]

def crunch(n: int) -> list:
    return [n * K, WORD, [ascii(word)[:9] for word in sys.argv[1:]], __name__]

async def agent(ctx):
    return [await ctx.tool(crunch, 21), await ctx.tool(crunch, 1)]

async def main():
    async with pullcord.open(":memory:", agents={"agent": agent}) as runtime:
        print(await (await runtime.start(agent)).result())

if __name__ == "__main__":
    asyncio.run(main())
"""


@pytest.mark.parametrize(("module", "file"), [("pk.app", "app"), ("pk", "__main__")])
async def test_tools_of_a_module_that_python_m_runs_find_what_it_found(
    module: str, file: str, tmp_path: Path
) -> None:
    files = {"pk/__init__.py": "", "pk/cfg.py": "K = 2\n", f"pk/{file}.py": PACKAGE}
    odd = "sch\udcf6n"  # not UTF-8, as a file name may be
    ran = await run_program(tmp_path, "-m", module, "word", odd, "x" * 100_000, files=files)
    assert ran.status == 0, ran.err
    told = ["'word'", "'sch\\udcf", "'xxxxxxxx"]
    assert ran.out.strip() == str(
        [[42, "word", told, f"pk.{file}"], [2, "word", told, f"pk.{file}"]]
    )


async def test_a_module_that_cannot_be_imported_says_so_and_where(tmp_path: Path) -> None:
    app = """
import asyncio, os, pullcord

if os.environ.get("PULLCORD_CALL"):
    [][0]

def crunch() -> None: ...

async def agent(ctx):
    return await ctx.tool(crunch)

async def main():
    async with pullcord.open(":memory:", agents={"agent": agent}) as runtime:
        print(await (await runtime.start(agent)).result())

if __name__ == "__main__":
    asyncio.run(main())
"""
    ran = await run_program(tmp_path, "app.py", files={"app.py": app})
    said = "could not import app.py: IndexError: list index out of range (app.py:5, in <module>)"
    assert said in ran.err
    assert "Nothing of 'crunch' was begun" in ran.err
