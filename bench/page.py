"""The page as somebody before it has it: how soon a press is felt, and what it weighs.

In a real browser, over loopback. The time of a press is taken where the click is made, and that
of its effect where it can be felt: at the provider's socket, or in what is painted.
"""

import asyncio
import gc
import gzip
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, expect
from tests.agents.provider.reply import say
from tests.web.browser import bar, button, chromium
from tests.web.people import Person, person
from tests.web.restartable_server import RestartableServer, restartable_server
from tests.web.talking import talker

import pullcord
from bench.figures import Figure, p50, p99
from pullcord import Context, RunHandle
from pullcord import RunState as S
from pullcord.limits import Never

CANCELS = 100
FLOODS = 20
PER_SECOND = 2_000
TEXTS = 20
BATCH = 200
EVENTS = 5_000
PAINTS = 40
_WORDS = " ".join(f"word{number}" for number in range(20_000))
_WEB = Path(pullcord.__file__).parent / "web"


async def measure(folder: Path) -> list[Figure]:
    async with chromium() as browser:
        gc.freeze()  # as `pullcord serve` does when its agents are loaded
        return [
            *await _click_to_socket(browser, folder / "socket"),
            *await _under_a_flood(browser, folder / "flood"),
            *await _first_paint(browser, folder / "paint"),
            *await _many_events(browser, folder / "many"),
            *_sizes(),
        ]


@asynccontextmanager
async def _somebody(browser: Browser, here: RestartableServer) -> AsyncGenerator[Person]:
    async with person(browser, here.base) as ana:
        await ana.gets_in(here)
        yield ana


async def _press_cancel(ana: Person) -> float:
    """When the click was made, by the clock that all of this machine shares."""
    at_ms = await button(ana.page, "Cancel").evaluate(
        "one => { const at = performance.timeOrigin + performance.now(); one.click(); return at; }"
    )
    return at_ms / 1000


async def _opened(ana: Person, here: RestartableServer, run: RunHandle) -> None:
    await ana.page.goto(f"{here.base}#/runs/{run.id}")
    await expect(bar(ana.page)).to_have_attribute("data-state", "running")
    await expect(ana.page.locator("div.said").first).to_contain_text("word9")


# --- a press ---


async def _click_to_socket(browser: Browser, folder: Path) -> list[Figure]:
    folder.mkdir()
    samples: list[float] = []
    async with (
        talker() as (provider, agent),
        restartable_server(folder, talker=agent, bound_s=600) as here,
    ):
        provider.script = lambda _: say(_WORDS, chunk_delay_s=0.005)
        async with _somebody(browser, here) as ana:
            for number in range(CANCELS):
                run = await here.start("talker", "go")
                await _opened(ana, here, run)
                pressed = await _press_cancel(ana)
                closed = await provider.async_wait_closed(number, timeout_s=30)
                assert closed.closed_at is not None
                samples.append(closed.closed_at - time.monotonic() + time.time() - pressed)
                await run.wait_for(S.CANCELLED)
    over = f"{CANCELS} cancels in the middle of an answer"
    return [
        Figure("click to the provider's socket closed, p50", p50(samples) * 1e3, 75, "ms", over),
        Figure("click to the provider's socket closed, p99", p99(samples) * 1e3, 150, "ms", over),
    ]


class _Flood:
    """An agent that floods whoever looks: many texts at once, for as long as it may.

    What a run says is durable before it is shown, piece by piece, so one text comes no faster than
    the disk is. Pieces of several texts share a commit here, as they would on a faster disk.
    """

    async def speak(self, ctx: Context) -> None:
        journal, lease = ctx.live.services.journal, ctx.live.mine.lease
        ends, began, said = [0] * TEXTS, time.monotonic(), 0
        while True:
            due = min(int((time.monotonic() - began) * PER_SECOND), said + BATCH)
            turn: list[Any] = []
            for number in range(said, due):
                part, text = number % TEXTS, f"word{number} "
                turn.append(journal.live_text.say(lease, f"say-{part}", text, offset=ends[part]))
                ends[part] += len(text)
            if "refused" in await asyncio.gather(*turn):
                await ctx.checkpoint()  # somebody has stopped it
            said = due
            await asyncio.sleep(0.001)


# What the page is sent is counted where it is decoded, before the page does anything with it.
_COUNTING = """
  window.came = 0;
  const decode = TextDecoder.prototype.decode;
  TextDecoder.prototype.decode = function (...bytes) {
    const text = decode.apply(this, bytes);
    for (let at = text.indexOf('event: text'); at >= 0; at = text.indexOf('event: text', at + 9))
      window.came += 1;
    return text;
  };
"""
_CANCEL_TO_PAINT = """one => new Promise((done) => {
  const bar = one.closest('.bar');
  const began = performance.now();
  const at = performance.timeOrigin + began;
  new MutationObserver((_, watching) => {
    if (bar.dataset.state === 'running') return;
    watching.disconnect();
    requestAnimationFrame(() => setTimeout(() => done([at, performance.now() - began])));
  }).observe(bar, { attributes: true });
  one.click();
})"""
_LAST_WORD = """() => Math.max(...[...document.querySelectorAll('div.said')].map(
  (one) => Number(/word(\\d+) *$/.exec(one.textContent)?.[1] ?? 0)))"""


async def _under_a_flood(browser: Browser, folder: Path) -> list[Figure]:
    folder.mkdir()
    asked, in_effect, seen = list[float](), list[float](), list[float]()
    keys, came, drawn, longest = list[float](), list[float](), list[float](), list[float]()
    free: Any = pullcord.AgentConfig(_Flood().speak, limits=Never())
    made = restartable_server(folder, flood=free, bound_s=600)
    async with made as here, _somebody(browser, here) as ana:
        await ana.context.add_init_script(_COUNTING)
        await ana.page.reload()
        await ana.page.evaluate(_LONGEST)
        for _ in range(FLOODS):
            run = await here.start("flood")
            await _opened(ana, here, run)
            await asyncio.sleep(1)  # so that the flood is on
            rates = await _rates(ana)
            came.append(rates[0])
            drawn.append(rates[1])
            keys.append(await ana.page.evaluate(_KEY_TO_PAINT))
            await ana.page.keyboard.press("Escape")
            await ana.page.evaluate("window.longest = 0")
            pressed_ms, seen_ms = await button(ana.page, "Cancel").evaluate(_CANCEL_TO_PAINT)
            longest.append(await ana.page.evaluate("window.longest"))
            seen.append(seen_ms)
            await expect(bar(ana.page)).to_have_attribute("data-state", "cancelled")
            receipt = await run.receipt()
            asked.append(receipt.asked_at_ms - pressed_ms)
            in_effect.append(receipt.effect_at_ms - pressed_ms)
    over = f"{FLOODS} cancels at {p50(came):,.0f} events/s to the page"
    return [
        Figure("events that came to the page in a flood", p50(came), 0.95 * PER_SECOND, "/s",
               f"slowest of {FLOODS}: {min(came):,.0f}/s", True),
        Figure("… and were drawn", p50(drawn), 0.95 * PER_SECOND, "/s",
               f"slowest of {FLOODS}: {min(drawn):,.0f}/s", True),
        Figure("click to cancel recorded, in a flood, worst", max(asked), 200, "ms", over),
        Figure("… to its effect, worst", max(in_effect), 200, "ms", over),
        Figure("… to another state painted in the bar, worst", max(seen), 200, "ms", over),
        Figure("key to paint in a flood, worst", max(keys), 200, "ms", over),
        Figure("longest task of the page meanwhile", max(longest), 100, "ms", over),
    ]  # fmt: skip


async def _rates(ana: Person) -> tuple[float, float]:
    """How many pieces a second have come to the page, and how many it has drawn, in a second."""
    began, came, word = await ana.page.evaluate(f"[performance.now(), came, ({_LAST_WORD})()]")
    await asyncio.sleep(1)
    ended, now, last = await ana.page.evaluate(f"[performance.now(), came, ({_LAST_WORD})()]")
    return (now - came) / (ended - began) * 1e3, (last - word) / (ended - began) * 1e3


# --- the page ---


async def _first_paint(browser: Browser, folder: Path) -> list[Figure]:
    folder.mkdir()
    page, bare = list[float](), list[float]()
    async with restartable_server(folder, bound_s=300) as here, _bare_page() as url:
        for _ in range(PAINTS):  # each in a browser that has never been here, in turns
            async with person(browser, here.base) as ana:
                await ana.gets_in(here)
                page.append(await ana.page.evaluate(_PAINTED))
            async with person(browser, url) as bo:
                await bo.page.goto(url)
                bare.append(await bo.page.evaluate(_PAINTED))
    over = f"{PAINTS} first visits, p50 {p50(page):.0f} ms"
    ratio = p50(page) / p50(bare)
    against = f"p50 of {PAINTS} visits each; bare {p50(bare):.0f} ms, worst {max(bare):.0f}"
    return [
        Figure("first paint on loopback, worst", max(page), 300, "ms", over),
        Figure("… to that of a page of one line", ratio, 3, "×", against),
    ]


_PAINTED = """() => new Promise((done) => new PerformanceObserver((list) =>
  done(list.getEntriesByName('first-contentful-paint')[0].startTime)
).observe({ type: 'paint', buffered: true }))"""


@asynccontextmanager
async def _bare_page() -> AsyncGenerator[str]:
    """The least that a browser can be given."""
    body = b"<!doctype html><title>Bare</title><p>Bare</p>"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\n\r\n"

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head + body)
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


async def _busy(ctx: Context) -> None:
    async def nothing() -> None:
        pass

    for number in range(EVENTS // 2):
        await ctx.step(f"step {number}", nothing, effect="none")
    await ctx.ask("Done?")


_LONGEST = """() => {
  window.longest = 0;
  new PerformanceObserver((list) => {
    const took = list.getEntries().map((entry) => entry.duration);
    window.longest = Math.max(window.longest, ...took);
  }).observe({ type: 'longtask', buffered: true });
}"""
_KEY_TO_PAINT = """() => new Promise((done) => {
  const began = performance.now();
  document.dispatchEvent(new KeyboardEvent('keydown', { key: 'r', bubbles: true }));
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - began)));
})"""


async def _many_events(browser: Browser, folder: Path) -> list[Figure]:
    folder.mkdir()
    free: Any = pullcord.AgentConfig(_busy, limits=Never())
    async with restartable_server(folder, busy=free, bound_s=300) as here:
        run = await here.start("busy")
        await run.wait_for(S.WAITING)
        records = (await run.snapshot()).seq
        async with _somebody(browser, here) as ana:
            await ana.page.evaluate(_LONGEST)
            began = time.monotonic()
            await ana.page.goto(f"{here.base}#/runs/{run.id}")
            await expect(ana.page.get_by_text(f"step {EVENTS // 2 - 1}").first).to_be_visible()
            shown = time.monotonic() - began
            keys = [await ana.page.evaluate(_KEY_TO_PAINT) for _ in range(20)]
            longest = await ana.page.evaluate("window.longest")
    over = f"a run of {records:,} records"
    return [
        Figure("a long run is on the screen", shown * 1e3, 1500, "ms", over),
        Figure("longest task while it is read", longest, 200, "ms", over),
        Figure("key to paint beside it, worst of 20", max(keys), 100, "ms", over),
    ]


def _sizes() -> list[Figure]:
    weight = {path.name: len(gzip.compress(path.read_bytes(), 9)) for path in _WEB.iterdir()}
    page = weight["page.js"] + weight["page.css"] + weight["page.html"]
    over = "gzip -9, as committed"
    return [
        Figure("the page: page.js, page.css, page.html", page / 1000, 60, "kB", over),
        Figure("the bar: pullcord-bar.js", weight["pullcord-bar.js"] / 1000, 15, "kB", over),
    ]
