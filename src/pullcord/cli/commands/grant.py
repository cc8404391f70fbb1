"""grant: a token for a program that uses the HTTP API of a store."""

from typing import Any

from pullcord.cli.as_json import to_json
from pullcord.cli.local_runs import local_runs
from pullcord.cli.parser import store_path
from pullcord.errors import InvalidInput
from pullcord.journal.store_location import beside
from pullcord.server.credentials import Keeper


def carry_out(asked: Any) -> int:
    if not 0 < asked.days <= 3660:
        raise InvalidInput(f"A token cannot count for {asked.days:g} days. Nothing was made.")
    with local_runs(asked) as here:
        if asked.run:
            asked.run = here.find(asked.run)
            here.run(asked.run)
    keeper = Keeper(f"{beside(store_path(asked.store))}.grants", name="", cookie="")
    kept, code = keeper.give(
        kind="token",
        name=asked.name,
        right=asked.right,
        run=asked.run,
        lasts_s=asked.days * 24 * 3600,
    )
    print(to_json({"id": kept.id, "token": code}).rstrip() if asked.json else code)
    return 0
