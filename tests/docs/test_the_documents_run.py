"""README, examples and documents say what the code does, because the code is asked."""

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import pullcord
from pullcord.cli.parser import VERBS
from pullcord.core.states import OFFERED, TABLE
from pullcord.errors import PullcordError
from pullcord.server.routes import ROUTES, Route
from pullcord.server.wire import Said

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found
    return found.group(1)


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"COLUMNS": "80"},
    )
    return done.stdout


def test_the_first_program_is_the_example_and_prints_what_the_readme_says() -> None:
    example = (ROOT / "examples" / "churn.py").read_text()
    assert example.partition('"""\n\n')[2] == block("python")
    assert run("examples/churn.py") == block("text")


def test_every_program_in_the_readme_is_part_of_an_example() -> None:
    examples = [path.read_text() for path in EXAMPLES]
    pages = README + (ROOT / "docs" / "python.md").read_text()
    for shown in re.findall(r"```python\n(.*?)```", pages, re.DOTALL):
        assert any(shown in example for example in examples)


@pytest.mark.parametrize(
    ("example", "says"),
    [
        ("one_winner.py", "ana: applied · bo: already"),
        ("family.py", "  survey: cancelled"),
        ("watching.py", "returned 214\n5: Publish it?\n6: answered by ana\n"),
        ("carrying_on.py", "It waits: waiting\nEU: 214\n"),
        ("careful.py", "stopped MaxSteps(4)"),
        ("writer.py", "In May the EU lost 2 customers."),
        ("drafts.py", "sent to ana\n('send',) ('draft', 'draft') ('crunch',) []"),
    ],
)
def test_an_example_does_what_it_says(example: str, says: str) -> None:
    assert says in run(f"examples/{example}")


def test_the_help_of_every_command_is_in_the_documents() -> None:
    page = ROOT / "docs" / "cli.md"
    wanted = cli_page()
    current = page.read_text() if page.exists() else ""
    if current != wanted:
        page.write_text(wanted)
    assert current == wanted, "docs/cli.md was out of date; it has been written anew"


def cli_page() -> str:
    parts = [
        "# The command line\n\nGenerated from the commands themselves; a test keeps it current."
    ]
    for verb in ("", *VERBS):
        name = f"pullcord {verb}".strip()
        shown = run("-m", "pullcord", *([verb] if verb else []), "--help").rstrip()
        parts.append(f"## {name}\n\n```text\n{shown}\n```")
    return "\n\n".join(parts) + "\n"


def test_the_readme_shows_code_by_line_25_and_stays_short() -> None:
    lines = README.splitlines()
    assert lines.index("```python") < 25
    assert len(lines) < 180


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_an_example_fits_on_a_screen(example: Path) -> None:
    assert len(example.read_text().splitlines()) <= 75
    assert example.read_text().startswith('"""')


def test_every_promise_names_a_test_and_every_promise_test_is_named() -> None:
    promised = set(re.findall(r"`(tests/[a-z_/]+\.py)`", (ROOT / "docs/promises.md").read_text()))
    folders = (
        "promises",
        "storage",
        "races",
        "crash",
        "contracts",
        "corpus",
        "tools",
        "agents",
        "guards",
        "limits",
        "secrets",
        "server",
        "web",
        "terminal",
        "tui",
        "stoplog",
        "switch",
        "hooks",
        "telemetry",
        "postgres",
        "world",
        "models",
    )
    there = {
        str(path.relative_to(ROOT))
        for folder in folders
        for path in (ROOT / "tests" / folder).glob("test_*.py")
    }
    assert promised == there


def test_the_table_of_states_is_current() -> None:
    page = ROOT / "docs" / "architecture.md"
    before, _, rest = page.read_text().partition("<!-- states -->\n")
    current, _, after = rest.partition("<!-- /states -->")
    wanted = states_table()
    if current != wanted:
        page.write_text(f"{before}<!-- states -->\n{wanted}<!-- /states -->{after}")
    assert current == wanted, "docs/architecture.md was out of date; it has been written anew"


def test_the_table_of_routes_is_current() -> None:
    page = ROOT / "docs" / "server.md"
    before, _, rest = page.read_text().partition("<!-- routes -->\n")
    current, _, after = rest.partition("<!-- /routes -->")
    wanted = routes_table()
    if current != wanted:
        page.write_text(f"{before}<!-- routes -->\n{wanted}<!-- /routes -->{after}")
    assert current == wanted, "docs/server.md was out of date; it has been written anew"


def routes_table() -> str:
    rows = [
        f"| `{route.method} {route.path}` | {needed(route)} | {fields(route.takes)} | "
        f"{route.about} |"
        for route in ROUTES
    ]
    heading = "| route | right | body | what it does |\n|---|---|---|---|"
    return "\n".join([heading, *rows]) + "\n"


def needed(route: Route) -> str:
    return "; ".join(
        [route.right or "none", *(f"with `{field}` {right}" for field, right in route.wider)]
    )


def fields(takes: type[Any] | None) -> str:
    if takes is None:
        return ""
    mine = [f for f in msgspec.structs.fields(takes) if f.name not in Said.__struct_fields__]
    return ", ".join(f"`{f.name}`" if f.required else f"`{f.name}`?" for f in mine)


async def test_the_program_in_the_page_about_the_bar_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "bar.md").read_text()
    program = re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0]
    made: dict[str, Any] = {}
    exec(compile(program, "docs/bar.md", "exec"), made)
    async with made["lifespan"](made["host"]):
        run = await made["runtime"].start("report")
        assert await run.result() == "All is well."


def test_the_program_in_the_page_about_the_api_works() -> None:
    page = (ROOT / "docs" / "server.md").read_text()
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    made: dict[str, Any] = {}
    exec(compile(program, "docs/server.md", "exec"), made)

    async def served() -> int:
        async with pullcord.open(":memory:") as runtime:
            answers: list[dict[str, Any]] = []

            async def receive() -> dict[str, Any]:
                return {"type": "http.request", "body": b"", "more_body": False}

            async def send(message: Any) -> None:
                answers.append(message)

            headers = [(b"host", b"here"), (b"x-user", b"ana")]
            scope = {
                "type": "http",
                "method": "GET",
                "path": "/agents/me",
                "raw_path": b"/agents/me",
                "query_string": b"",
                "root_path": "",
                "headers": headers,
                "http_version": "1.1",
            }
            await made["host"](runtime)(scope, receive, send)
            return answers[0]["status"]

    assert asyncio.run(served()) == 200


def states_table() -> str:
    rows = [
        f"| `{state}` | {row.says} | {', '.join(sorted(OFFERED[state])) or '—'} | "
        f"{', '.join(sorted({str(to) for to in row.on.values()} - {state})) or '—'} |"
        for state, row in TABLE.items()
    ]
    heading = "| state | what is true | offers | leads to |\n|---|---|---|---|"
    return "\n".join([heading, *rows]) + "\n"


def test_the_glossary_is_in_order_and_has_one_line_per_word() -> None:
    words = re.findall(r"^\| ([a-z ]+) \| ", (ROOT / "docs/glossary.md").read_text(), re.MULTILINE)
    words.remove("word")
    assert words == sorted(set(words))


def test_every_error_is_in_the_drawn_tree() -> None:
    def below(kind: type[PullcordError]) -> set[str]:
        return {kind.__name__}.union(*(below(sub) for sub in kind.__subclasses__()))

    drawn = (sys.modules["pullcord.errors"].__doc__ or "").split()
    assert below(PullcordError) <= set(drawn)


def test_every_dependency_has_its_reason() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    wanted = re.search(r"^dependencies = \[(.*?)\]", project, re.MULTILINE)
    assert wanted
    for name in re.findall(r'"([a-z-]+)', wanted.group(1)):
        assert f"[{name}]" in README
