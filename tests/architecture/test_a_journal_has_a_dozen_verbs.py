"""A journal can be recited: a dozen verbs, and facets that are where their names say."""

import inspect
from pathlib import Path

from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from tests.architecture.modules import imports_of, parsed

FACETS = Path(inspect.getfile(Journal)).parent / "facets"
NAMES = {path.stem for path in FACETS.glob("*.py")} - {"__init__"}
VERBS = {name for name in vars(Journal) if not name.startswith("_")}


def test_it_has_a_dozen_verbs() -> None:
    assert len(VERBS) <= 12


async def test_each_facet_is_in_the_module_of_its_name() -> None:
    async with Journal(MemoryStore()) as journal:
        kept = {name: type(facet).__module__ for name, facet in vars(journal).items()}
    places = {name: home for name, home in kept.items() if ".facets." in home}
    assert places == {name: f"pullcord.journal.facets.{name}" for name in NAMES}


def test_no_facet_knows_the_journal() -> None:
    for name in NAMES:
        assert "pullcord.journal.journal" not in imports_of(parsed(FACETS / f"{name}.py"))
