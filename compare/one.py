"""One situation of one peer, in a process of that peer's environment. Prints one JSON line.

`python -m compare.one PEER SITUATION PROVIDER LABEL FOLDER [PROMPT]`; SITUATION may also be one of
the two lives that `compare.kill` plays.
"""

import asyncio
import importlib
import json
import sys
from pathlib import Path

from compare import kill
from compare.situations import Values
from compare.stage import Stage


async def main() -> None:
    peer, situation, provider, label, folder, *prompt = sys.argv[1:]
    stage = Stage(provider, label, Path(folder))
    values: Values
    if situation in kill.PROMPTS:
        values = await kill.killed_and_restarted(peer, situation, stage)
    else:
        module = importlib.import_module(f"compare.peers.{peer}")
        values = await getattr(module, situation)(stage, *prompt)
    print("\n" + json.dumps(values), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
