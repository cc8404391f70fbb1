"""Runs as they happen every day: agents that work through things, try, wait, look again, and get
somewhere. Drawn from a seed; what each may do that looks like a runaway is what its kind is for.

Each kind says what a model would do (a list of answers) in a world whose tools have results that
depend on what was done before, or is a function that calls the tools itself.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pydantic_ai import Agent, ModelRetry

from pullcord import Context, tool
from pullcord.runtime.agents import Foreign, Function
from pullcord.runtime.policy import Retry
from pullcord.testing.scripted import Answer, Call, ScriptedModel

Kind: TypeAlias = Callable[[random.Random], "Function | Foreign"]


class Place:
    """Where they work. It changes by what they do, and by itself."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self.files = {f"src/{name}.py": f"def {name}(): ..." for name in ("a", "b", "c", "d")}
        self._page = 0
        self._looked = 0
        self._stands = 0
        self._flaky: dict[str, int] = {}
        self._done: dict[str, int] = {}
        self._calls = 0

    async def write(self, path: str, text: str) -> str:
        self.files[path] = text
        return "ok"

    async def read(self, path: str) -> str:
        return self.files.get(path, "there is no such file")

    async def run_tests(self) -> str:
        return "2 failed, 14 passed"  # however often it was edited

    async def list_files(self) -> list[str]:
        return sorted(self.files)

    async def search(self, query: str) -> list[str]:
        return [f"{query} {n}" for n in range(3)]

    async def page(self, number: int) -> list[int]:
        return list(range(number * 10, number * 10 + 10))

    async def next_page(self) -> list[int]:
        self._page += 1
        return await self.page(self._page)

    async def progress(self, job: str) -> str:
        self._looked += 1
        if self._stands and self._chance.random() < 0.5:
            self._stands -= 1
        else:
            self._stands = 3
            self._looked += 10
        return f"{job}: {self._looked // 10 * 10} lines"

    async def wait(self, seconds: int) -> str:
        self._calls += 1
        return f"waited {seconds} s, request {self._calls}"

    async def share(self, job: str) -> str:
        """How much is done, in one of the ways in which tools say that."""
        self._calls += 1
        done = self._done[job] = self._done.get(job, 0) + self._chance.choice((0, 1, 2, 3))
        ways = (f"{done} %", f"{done} of 200 files", f'{{"built": "{done}/200"}}')
        return f"request {self._calls}, 03:{self._calls % 60:02}:07: {ways[len(job) % 3]}"

    async def left(self, job: str) -> dict[str, int]:
        done = self._done[job] = self._done.get(job, 0) + self._chance.choice((0, 1, 2))
        return {"waiting": max(300 - done, 0)}

    async def lines(self, job: str) -> str:
        """How much is done, without saying of how much."""
        done = self._done[job] = self._done.get(job, 0) + self._chance.choice((0, 40, 41, 90))
        return f"{job}: {done} lines"

    async def shot(self) -> str:
        self._calls += 1
        return f"shot-{self._calls:04}.png"

    async def fetch(self, url: str) -> str:
        left = self._flaky.setdefault(url, self._chance.randrange(4))
        if left:
            self._flaky[url] = left - 1
            raise ModelRetry("503, try again")
        return f"<html>{url}</html>"

    async def check(self, host: str) -> str:
        return "ok"

    async def deploy(self, stage: str) -> str:
        return "deployed"

    async def click(self, x: int, y: int) -> str:
        return "ok"

    async def scroll(self) -> str:
        return "ok"

    @property
    def tools(self) -> list[Any]:
        return [
            self.write, self.read, self.run_tests, self.list_files, self.search, self.page,
            self.next_page, self.progress, self.fetch, self.check, self.deploy, self.click,
            self.scroll, self.wait, self.share, self.left, self.lines, self.shot,
        ]  # fmt: skip


def modelled(script: Callable[[random.Random], list[Answer]]) -> Kind:
    """An agent whose model says this and then that it is done."""

    def made(chance: random.Random) -> Foreign:
        answers: list[Answer] = [*script(chance), "done"]
        return Agent(
            ScriptedModel(answers, keep=False), tools=Place(chance).tools, retries=10, name="agent"
        )

    return made


def _call(name: str, **args: Any) -> Answer:
    return [Call(name, args)]


# --- what models do -----------------------------------------------------------------------------


def writes_files(chance: random.Random) -> list[Answer]:
    """Twelve files or more, of which each comes back as "ok"."""
    return [
        _call("write", path=f"out/{n}.md", text="# Draft") for n in range(chance.randint(6, 24))
    ]


def pages(chance: random.Random) -> list[Answer]:
    return [_call("page", number=n) for n in range(chance.randint(6, 30))]


def pages_on(chance: random.Random) -> list[Answer]:
    """The same call every time, and another page every time."""
    return [_call("next_page") for _ in range(chance.randint(6, 30))]


def polls(chance: random.Random) -> list[Answer]:
    """The same call every time; what comes of it stands still for a while, and moves on."""
    return [_call("progress", job="build") for _ in range(chance.randint(8, 30))]


def tries_again(chance: random.Random) -> list[Answer]:
    """Calls that fail up to three times, and are made again until they do not."""
    urls = [f"https://site-{n}.example" for n in range(chance.randint(3, 8))]
    return [_call("fetch", url=url) for url in urls for _ in range(4)]


def reads_edits_tests(chance: random.Random) -> list[Answer]:
    """The same file, another edit, and the same two failures; over and over."""
    path = "src/a.py"
    answers: list[Answer] = []
    for n in range(chance.randint(4, 12)):
        answers.append(_call("read", path=path))
        answers.append(_call("write", path=path, text=f"def a(): return {n}"))
        answers += [_call("run_tests")] * chance.randint(1, 2)
    return answers


def works_through_a_list(chance: random.Random) -> list[Answer]:
    """A hundred things through one tool, some at a time, each with the same result."""
    size = chance.choice([1, 4, 10])
    hosts = [f"host-{n}" for n in range(40 if size == 1 else 100)]
    batches = [hosts[n : n + size] for n in range(0, len(hosts), size)]
    return [[Call("check", {"host": host}) for host in batch] for batch in batches]


def checks_before_and_after(chance: random.Random) -> list[Answer]:
    """Everything is looked at again after each stage, and everything is still well."""
    hosts = [f"host-{n}" for n in range(chance.randint(2, 15))]
    checks = [Call("check", {"host": host}) for host in hosts]
    answers: list[Answer] = [list(checks)]
    for stage in ("staging", "canary", "all")[: chance.randint(1, 3)]:
        answers.append(_call("deploy", stage=stage))
        answers += [[check] for check in checks] if chance.random() < 0.5 else [list(checks)]
    return answers


def looks_around(chance: random.Random) -> list[Answer]:
    """Looks the same things up now and then, between others that are new."""
    answers: list[Answer] = []
    for n in range(chance.randint(6, 20)):
        answers.append(_call("search", query=f"how to {n}"))
        if chance.random() < 0.5:
            answers.append(_call("list_files"))
        if chance.random() < 0.5:
            answers.append(_call("read", path=f"src/{chance.choice('abcd')}.py"))
    return answers


def forgets(chance: random.Random) -> list[Answer]:
    """Reads a handful of files, and then all of them once more before it begins."""
    files = [f"src/{name}.py" for name in "abcd"]
    twice = [_call("read", path=path) for path in (*files, *chance.sample(files, 4))]
    edits = [_call("write", path=path, text="pass") for path in files]
    return [*twice, *edits, *[_call("read", path=path) for path in files]]


def uses_a_screen(chance: random.Random) -> list[Answer]:
    """Scrolls a few times, clicks, and does the same further down."""
    answers: list[Answer] = []
    for n in range(chance.randint(3, 10)):
        answers += [_call("scroll")] * chance.randint(1, 5)
        answers.append(_call("click", x=chance.randrange(800), y=100 + n))
    return answers


def changes_its_mind(chance: random.Random) -> list[Answer]:
    """Writes a file one way, the other way, and back again; then leaves it."""
    answers: list[Answer] = []
    for n in range(chance.randint(2, 3) * 2):
        text = "tabs" if n % 2 else "spaces"
        answers.append(_call("write", path="style.md", text=text))
        answers.append(_call("read", path="style.md"))
    return [*answers, _call("run_tests")]


def waits_for_a_share(chance: random.Random) -> list[Answer]:
    """Waits and asks how much is done, in turns; every answer has a counter and a time in it."""
    job = "build"[: chance.randint(3, 5)]
    both = [_call("wait", seconds=30), _call("share", job=job)]
    return both * chance.randint(10, 30)


def waits_for_a_queue(chance: random.Random) -> list[Answer]:
    """Waits until what is left becomes nothing."""
    return [_call("wait", seconds=5), _call("left", job="mail")] * chance.randint(10, 30)


def waits_for_a_log(chance: random.Random) -> list[Answer]:
    """Waits, and sees a number grow that nobody knows the end of."""
    return [_call("wait", seconds=5), _call("lines", job="import")] * chance.randint(10, 30)


def waits_for_several(chance: random.Random) -> list[Answer]:
    """Asks after two to four jobs in turns."""
    jobs = ["import", "index", "export", "report"][: chance.randint(2, 4)]
    return [_call("lines", job=job) for _ in range(chance.randint(10, 20)) for job in jobs]


def saves_pages(chance: random.Random) -> list[Answer]:
    """Fetches the next page of numbers and notes it down, with the same words every time."""
    both = [_call("next_page"), _call("write", path="pages.csv", text="append")]
    return both * chance.randint(6, 25)


def leafs_through(chance: random.Random) -> list[Answer]:
    """Clicks on "next" and takes a picture, which has another number each time."""
    return [_call("click", x=780, y=580), _call("shot")] * chance.randint(3, 7)


# --- what functions do --------------------------------------------------------------------------


def _functions(chance: random.Random) -> dict[str, Function]:
    size = chance.randint(6, 25)
    place = Place(chance)
    tries = Retry(attempts=6, wait_s=0.0)
    get = tool(effect="none", retry=tries)(place.fetch)

    async def loops(ctx: Context) -> int:
        """What its own code repeats is meant, also if nothing ever comes of it."""
        for _ in range(size):
            await ctx.tool(place.scroll)
        return size

    async def waits_in_memory(ctx: Context) -> int:
        for _ in range(size):
            await ctx.tool(place.run_tests)
            await asyncio.sleep(0)
        return size

    async def sleeps(ctx: Context) -> int:
        for _ in range(7):
            await ctx.tool(place.run_tests)
            await ctx.sleep(0.001)
        return 7

    async def goes_in_turns(ctx: Context) -> int:
        for _ in range(size):
            await ctx.tool(place.list_files)
            await ctx.tool(place.run_tests)
        return size

    async def plans_each_item(ctx: Context) -> int:
        """Two kinds of things in turns, each with the plan of its kind."""
        for number in range(size):
            titles = ["fetch", "score"] if number % 2 else ["fetch", "write"]
            async for item in ctx.plan(titles):
                await ctx.step(item.title, _work, number)
        return size

    async def plans_anew(ctx: Context) -> int:
        """Gives a plan up for another a few times, as it learns more."""
        for number in range(6):
            async for item in ctx.plan(["look", "fix"] if number % 2 else ["look", "ask"]):
                await ctx.tool(place.search, f"{item.title} {number}")
                break
        return 6

    async def retries(ctx: Context) -> int:
        for number in range(size):
            await ctx.tool(get, f"https://site-{number}.example")
        return size

    async def side_by_side(ctx: Context) -> int:
        async def one(number: int) -> None:
            mine = ctx.branch(f"host {number}")
            await mine.tool(place.check, f"host {number}")
            await mine.tool(place.run_tests)

        await asyncio.gather(*(one(number) for number in range(size)))
        return size

    return {
        function.__name__: function
        for function in (
            loops, waits_in_memory, sleeps, goes_in_turns, plans_each_item, plans_anew, retries,
            side_by_side,
        )
    }  # fmt: skip


async def _work(number: int) -> int:
    return number


def functional(name: str) -> Kind:
    return lambda chance: _functions(chance)[name]


KINDS: Final[dict[str, Kind]] = {
    script.__name__: modelled(script)
    for script in (
        writes_files, pages, pages_on, polls, tries_again, reads_edits_tests, works_through_a_list,
        checks_before_and_after, looks_around, forgets, uses_a_screen, changes_its_mind,
        waits_for_a_share, waits_for_a_queue, waits_for_a_log, waits_for_several, saves_pages,
        leafs_through,
    )
} | {name: functional(name) for name in _functions(random.Random(0))}  # fmt: skip
