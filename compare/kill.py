"""kill -9 during the second of two tools, and a restart: the same for every peer.

Two processes of `compare.one` play the two lives. The first is killed once the slow tool has
written three lines; the second is given the same folder and the same prompt.
"""

import asyncio
import json
import sys

from compare.situations import Values
from compare.stage import Stage

PROMPTS = {
    "kill_one_answer": "TWO TOOLS quick slow_sync",
    "kill_two_answers": "TOOL quick THEN slow_sync",
}
LINES_BEFORE = 3


async def killed_and_restarted(peer: str, situation: str, stage: Stage) -> Values:
    """Play both lives and count what ran in them."""
    first = await _live(peer, "first_life", situation, stage)
    if not await stage.until(lambda: len(stage.line_times()) >= LINES_BEFORE):
        first.kill()
        return {"error": "the slow tool did not begin"}
    first.kill()
    await first.wait()
    second = await _live(peer, "second_life", situation, stage)
    try:
        async with asyncio.timeout(30):
            out, _ = await second.communicate()
    except TimeoutError:
        second.kill()
        return {"error": "the second life did not end within 30 s"}
    lines = [line for line in out.decode().splitlines() if line.startswith("{")]
    said: Values = json.loads(lines[-1]) if lines else {"outcome": f"exit code {second.returncode}"}
    counts: Values = {
        "quick_starts": stage.began("quick"),
        "slow_starts": stage.began("slow_sync"),
    }
    return {**said, **counts}


async def _live(peer: str, life: str, situation: str, stage: Stage) -> asyncio.subprocess.Process:
    command = ["-m", "compare.one", peer, life, stage.provider, stage.label, str(stage.folder)]
    return await asyncio.create_subprocess_exec(
        sys.executable, *command, PROMPTS[situation], stdout=asyncio.subprocess.PIPE
    )
