"""Every `pullcord ...` in the help, the README and the documents is carried out, or it is said why
not. A server drives the runs that they are about."""

import json
import os
import re
import shlex
from collections.abc import Generator
from itertools import count
from pathlib import Path

import pytest

from pullcord.cli.parser import VERBS
from pullcord.core.states import RunState
from tests.cli.serving import Serving, serve
from tests.cli.terminal import AGENTS, Terminal

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = ("cli.md", "json.md")
CANNOT = {
    # what cannot be carried out here, and where what it shows is tested instead
    'pullcord run writer.py:writer "Write about May" --model openai:gpt-5': (
        "needs a key and the network: tests/cli/test_language_model_agents.py"
    ),
    "pullcord demo --model openai:gpt-5": "needs a key and the network",
    "pullcord answer 7f3a doubt-charge-1f-1 happened": (
        "needs a crash: test_after_kill_dash_nine_a_step_in_doubt_is_asked_about"
    ),
    "pullcord top --store runs.db --theme light": (
        "needs a terminal: tests/tui/test_the_command_top.py"
    ),
    "pullcord top --server http://127.0.0.1:8421": (
        "needs a terminal: tests/tui/test_the_command_top.py"
    ),
    "pullcord tour": "takes its twenty seconds; it is carried out at another --pace",
}
AS_WELL = {"tour": ["--pace", "0.02"]}  # words added to a command, so that it ends soon
STAYS = ("serve", "demo")  # what runs until it is told to stop
AGENT = {
    "pause": "planned",
    "redirect": "planned",
    "cancel": "hangs",
    "resume": "planned",
    "answer": "planned",
    "approve": "pays",
    "edit": "pays",
    "deny": "pays",
    "undo": "drafts",
    "settle": "stubborn",
    "raise": "capped",
    "signal": "told",
    "aside": "talker",
}
RUN = re.compile(r"\b(7f3a|RUN)\b")
REPORT = """
async def churn(ctx, given):
    for number in range(6):
        await ctx.step(f"step {number}", work)
    return given


async def work():
    return "done"
"""


def in_help() -> list[str]:
    return [example for verb in VERBS.values() for example in verb.examples]


def in_documents() -> list[str]:
    """Whole lines in blocks, and what stands between backticks; not forms (`[...]`)."""
    found: list[str] = []
    for page in PAGES:
        if page.name in GENERATED:
            continue
        text = page.read_text()
        found += re.findall(r"^pullcord [a-z][^\n]*", text, re.MULTILINE)
        found += re.findall(r"`(pullcord [a-z][^`\n]*)`", text)
    whole = [line.partition("  #")[0].strip() for line in found]
    return sorted({line for line in whole if not re.search(r"[\[…]|\.\.\.", line)})


@pytest.fixture(scope="module")
def serving(tmp_path_factory: pytest.TempPathFactory) -> Generator[Serving]:
    folder = tmp_path_factory.mktemp("shown")
    (folder / "report.py").write_text(REPORT)
    (folder / "examples").symlink_to(ROOT / "examples")
    agents = ROOT / "tests" / "cli"
    files = (agents / "world.py", agents / "talker.py", folder / "report.py")
    with serve(folder, *map(str, files)) as made:
        made.here.folder = folder
        made.here.env["PYTHONPATH"] = f"{ROOT / 'src'}{os.pathsep}{ROOT}"
        yield made


_numbers = count(1)


def prepared(serving: Serving, words: list[str]) -> list[str]:
    """The command, about a run of ours that is as far as the command needs it."""
    verb, name = words[1], f"a{next(_numbers)}"
    if not any(RUN.search(word) for word in words):
        return words
    agent = AGENT.get(verb, "churn")
    serving.begin(agent, name, given="Go." if agent == "talker" else None)
    here = serving.here
    names = {"7f3a": name, "RUN": name}
    if agent in ("churn", "drafts", "stubborn", "talker"):
        here.ended(run_id=name)
    elif agent == "hangs":
        here.until(lambda run: bool(run.open_steps()), run_id=name)
    elif agent == "capped":
        here.reached(RunState.PAUSED, run_id=name)
    else:
        run = here.reached(RunState.WAITING, run_id=name)
        names |= {"go-ade2": run.open_questions()[0], "pay-403d": run.open_questions()[0]}
    if verb == "resume":
        assert serving("pause", name, "--wait").status == 0
    if verb in ("undo", "settle"):
        [step] = here("receipt", name, "--json").json["steps"]
        names |= {"draft-1f2e": step["step"], "a-1": step["step"]}
    if verb == "settle":
        here("undo", name)
        names["charge-1f2e"] = here("attention", name, "--json").json[0]["item"]
    return [names.get(word, word) for word in words]


def test_what_cannot_be_carried_out_is_still_shown() -> None:
    assert CANNOT.keys() <= {*in_help(), *in_documents()}


@pytest.mark.parametrize("line", sorted({*in_help(), *in_documents()}))
def test_it_runs(serving: Serving, line: str) -> None:
    words = shlex.split(line)
    verb = words[1]
    assert verb in VERBS or verb == "--help", line
    if line in CANNOT and verb not in AS_WELL:
        pytest.skip(CANNOT[line])
    said = [word.replace("http://127.0.0.1:8421", serving.url) for word in words]
    said = ["ci" if word == "NAME" else "0" if word == "9000" else word for word in said]
    if verb in STAYS:
        return starts(serving, said[1:])
    if verb == "kill-switch":
        return switches(serving, said[1:])
    if len(said) == 2 and (verb in AGENT or verb in ("run", "top", "forget")):
        said.append("--help")  # its name alone was mentioned
    asked = [*prepared(serving, said)[1:], *AS_WELL.get(verb, [])]
    serving.here.env["PULLCORD_TOKEN"] = serving.env["PULLCORD_TOKEN"]
    done = serving.here(*asked)
    status = nothing_left(verb, asked)
    assert done.status in status, (asked, done)
    assert "Traceback" not in done.err
    if "--json" in asked:
        [json.loads(one) for one in done.out.splitlines()]
    return None


def switches(serving: Serving, words: list[str]) -> None:
    """On a store of its own: everything else would stand still."""
    here = Terminal(serving.folder / "switched-off")
    here.store.parent.mkdir(exist_ok=True)
    assert here("run", f"{AGENTS}:quick").status == 0
    if "release" in words:
        here("kill-switch", "engage")
    done = here(*words)
    assert (done.status, done.err) == (0, ""), done
    for flag in here.store.parent.glob("*.kill-switch"):
        flag.unlink()


def nothing_left(verb: str, asked: list[str]) -> tuple[int, ...]:
    """The exit status that it has in this world."""
    if verb == "doctor":
        return (0, 1)  # other examples leave something to look at
    return (3,) if verb == "undo" and "--back-to" in asked else (0,)


def starts(serving: Serving, words: list[str]) -> None:
    """It says where it is, and ends when it is told to."""
    more = ["--port", "0"] if "--port" not in words else []
    more += ["--no-open"] if words[0] == "demo" else []
    with serving.here.running(*words, *more) as process:
        assert process.stdout
        said = ""
        while "http://127.0.0.1:" not in said:
            said = process.stdout.readline()
            assert said, process.communicate()[1]
        process.terminate()
        process.communicate(timeout=30)
    assert process.returncode == 0


def test_the_first_line_of_each_help_says_what_it_does_in_one_sentence() -> None:
    for name, verb in VERBS.items():
        assert verb.summary[0].isupper(), name
        assert verb.summary.endswith("."), name
        assert len(verb.summary) < 90, name
        assert verb.text, name
        assert verb.examples, name
        assert "!" not in verb.summary + verb.text, name


def test_every_command_has_its_exit_status_in_its_help(serving: Serving) -> None:
    for name in VERBS:
        shown = serving.here(name, "--help").out
        assert "Exit status: 0 done or already so" in shown, name
        assert "Examples:\n  pullcord" in shown, name
