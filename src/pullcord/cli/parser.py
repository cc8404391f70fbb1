"""Every command's words: what it does to the run, what is guaranteed, an example, exit codes."""

import argparse
import os
import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn

from pullcord import __version__
from pullcord.cli.as_json import to_json
from pullcord.cli.verbs import arguments
from pullcord.core.commands import COMMANDS, Command, words_of
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    import difflib
else:
    difflib = lazy_import("difflib")  # only who mistypes waits for it

FAILED, USAGE, REFUSED, TIMED_OUT, INTERRUPTED = 1, 2, 3, 4, 130
STATUS: Final = (
    "Exit status: 0 done or already so · 1 the store, the server or the run failed · 2 wrong usage"
    "\n             3 refused in this state · 4 timed out · 130 interrupted, the run can be resumed"
)

PLACES: Final = (
    "RUN is the id of a run, or as much of it as makes it the only one. Runs are in a store\n"
    "(--store, PULLCORD_STORE) or on a server (--server, PULLCORD_SERVER, with PULLCORD_TOKEN or\n"
    "--token-file): the same words, the same errors. Either may stand in pullcord.toml."
)


class Verb(NamedTuple):
    module: str  # in pullcord.cli; loaded only if this verb is used
    summary: str
    text: str
    examples: tuple[str, ...]

    @property
    def is_brief(self) -> bool:
        """A process that decides or looks once and is gone."""
        return self.module in ("control", "show", "waiting")

    @property
    def is_for_servers(self) -> bool:
        """It can be asked of a server, too."""
        return self.is_brief or self.module in ("drive", "doctor", "kill_switch", "top")


_DRIVEN: Final = ("undo",)  # controls that are carried out right here, too


def _control(kind: type[Command]) -> Verb:
    return Verb("drive" if kind.verb in _DRIVEN else "control", *words_of(kind))


VERBS: Final[dict[str, Verb]] = {
    "run": Verb(
        "drive",
        "Start an agent and drive it here.",
        "FILE.py:NAME names an async function that takes a context, or an agent of a framework,\n"
        "whose prompt INPUT is (and whose model can be another: --model). INPUT is JSON, or else\n"
        "text; - reads it from standard input. What the agent says goes to standard output, the\n"
        "rest to standard error. In a terminal a bar shows how the run is, and keys control it: ?\n"
        "lists them, Ctrl-C pauses, twice cancels; [keys] in pullcord.toml binds them otherwise.\n"
        "Elsewhere Ctrl-C gives the run back unharmed and says how to go on.\n\n"
        "With --server NAME is an agent that the server knows: it drives, and this follows.\n"
        "Ctrl-C then only stops the following.",
        (
            'pullcord run report.py:churn \'{"month": "May"}\'',
            "pullcord run report.py:churn",
            "pullcord run report.py:churn --limit steps=40 --on-exhausted stop",
            "pullcord run churn --server http://127.0.0.1:8421",
            'pullcord run writer.py:writer "Write about May" --model openai:gpt-5',
        ),
    ),
    "ps": Verb(
        "show",
        "List runs, the newest first.",
        "Without --all only those that have not ended. Looking changes nothing.",
        ("pullcord ps", "pullcord ps --all --json"),
    ),
    "show": Verb(
        "show",
        "Show RUN: its state, plan, steps, questions, and what can be done now.",
        "With --records also its journal, one line per record. Looking changes nothing, and what\n"
        "a quarantined run said and found is not shown.",
        ("pullcord show 7f3a", "pullcord show 7f3a --records"),
    ),
    "watch": Verb(
        "show",
        "Follow RUN until it ends.",
        "First what has happened, then what happens. Closing it stops nothing. --after goes on\n"
        "from a place that an earlier watch printed with --json.",
        ("pullcord watch 7f3a", "pullcord watch 7f3a --json --after 12"),
    ),
    "top": Verb(
        "top",
        "See all runs on one screen, live, and pull the cord of any of them.",
        "Those that need a person come first. p pauses and resumes, r redirects, c twice cancels,\n"
        "a answers, + raises a limit, ? shows all keys; [keys] in pullcord.toml binds them\n"
        "otherwise. Leaving stops nothing. Needs textual: pip install 'pullcord[tui]'.",
        (
            "pullcord top",
            "pullcord top --store runs.db --theme light",
            "pullcord top --server http://127.0.0.1:8421",
        ),
    ),
    **{verb: _control(kind) for verb, kind in COMMANDS.items()},
    "approvals": Verb(
        "waiting",
        "List the calls that wait for somebody's word, of RUN or of all runs.",
        "Each is shown as it will be made. An approval allows exactly that call, and expires.",
        ("pullcord approvals", "pullcord approvals 7f3a --json"),
    ),
    "attention": Verb(
        "waiting",
        "List what a person has to look at, of RUN or of all runs, ended ones too.",
        "Steps nobody knows the outcome of, undos that failed, tools that could not be stopped.\n"
        "An item stays until somebody settles it.",
        ("pullcord attention",),
    ),
    "receipt": Verb(
        "show",
        "Show what RUN has left behind: done, in doubt, not attempted, partial text, cost.",
        "Before its end it is the receipt so far. What the receipt calls in doubt nobody knows.",
        ("pullcord receipt 7f3a",),
    ),
    "log": Verb(
        "log",
        "Show, check or hand on the stop log: who stopped what, when, and what that met.",
        "show lists every stop, or those of RUN. verify checks that nothing was changed, deleted\n"
        "or cut off: in the log, in what was noted of it outside the database (the anchor), in\n"
        "the journals of all runs, or of RUN; it names the first thing that is wrong. export\n"
        "writes RUN, with its stops and a script that checks them, into one file; what was\n"
        "quarantined is in it. head prints the end of the log, to be noted elsewhere. All of it\n"
        "only reads, and needs no server. Exit status 5 if something is wrong.",
        (
            "pullcord log show",
            "pullcord log show 7f3a",
            "pullcord log verify",
            "pullcord log export 7f3a -o evidence.zip",
            "pullcord log head",
        ),
    ),
    "fork": Verb(
        "drive",
        "Start a new run that goes on from what RUN has done.",
        "Steps that RUN had finished up to record --at (default: all) are not carried out again.\n"
        "RUN itself is not touched. Also the way to try a failed run again. What RUN was still\n"
        "doing is not known to the new one.",
        ("pullcord fork 7f3a", 'pullcord fork 7f3a --at 12 --instruction "use v2"'),
    ),
    "aside": Verb(
        "drive",
        "Ask QUESTION about RUN without disturbing it.",
        "A run of its own answers from a copy of what is known so far, and does nothing else. RUN\n"
        "is not touched: if it is paused it stays so. For agents that talk to a model.",
        ('pullcord aside 7f3a "why are you reading the tests?"',),
    ),
    "continue": Verb(
        "drive",
        "Start the next run on the thread of RUN.",
        "The same agent, with what RUN has said and done as its context, and with INPUT: what RUN\n"
        "was told is not sent again. To try the same again: pullcord fork",
        ('pullcord continue 7f3a "now for June"',),
    ),
    "kill-switch": Verb(
        "kill_switch",
        "Stop everything from outside: engage it, release it, or see how it stands.",
        "Engaged, nothing starts in any process of the store, also after a restart: every run is\n"
        "held where it is, process tools are killed, and so is a `pullcord` that does not answer.\n"
        "It works with the event loop blocked, the database gone and the disk full; what could\n"
        "not be stopped is named. --agent and --thread narrow it. The release is a separate act,\n"
        "and resumes nothing. By hand: touch STORE.kill-switch",
        (
            'pullcord kill-switch engage --reason "it writes to production"',
            "pullcord kill-switch engage --agent churn-report",
            "pullcord kill-switch status --json",
            'pullcord kill-switch release --reason "the key is changed"',
        ),
    ),
    "serve": Verb(
        "serve",
        "Serve the page and the HTTP API of a store, and drive the agents of FILEs.",
        "Prints a link that opens the page in one browser, once. Listens on this machine only;\n"
        "another --host needs --allow-host, the name that people reach it by. Closing the page\n"
        "stops nothing; Ctrl-C gives every run back unharmed.",
        ("pullcord serve report.py", "pullcord serve --port 9000 --store runs.db"),
    ),
    "grant": Verb(
        "grant",
        "Make a token for a program that uses the HTTP API of a store.",
        "It is printed once, and kept only as its digest. Rights: view, stop (also pause,\n"
        "resume and cancel), control (also start and redirect), approve (also allow calls and\n"
        "raise limits), admin. --run narrows it to one run.",
        ("pullcord grant ci --right control", "pullcord grant wall --right view --days 365"),
    ),
    "forget": Verb(
        "forget",
        "Delete what was said and done in RUNs that have ended, and keep that they ran.",
        "First it says what would go; nothing is deleted without --yes. Meant are the RUNs that\n"
        "are named, or all that ended --older-than 90d, are on --thread ID or were started --of\n"
        "NAME (all that is said counts), with their children; without any of these, those older\n"
        "than retain in pullcord.toml. A run that another still needs, or that somebody has to\n"
        "look at, is kept, and it is said why. Afterwards nothing can go on from it, and `show`\n"
        "says who had it deleted, when and why. One run is one transaction; others may use the\n"
        "store meanwhile.",
        (
            "pullcord forget 7f3a",
            "pullcord forget --older-than 90d --yes",
            'pullcord forget --of ana --reason "her request" --yes',
        ),
    ),
    "completion": Verb(
        "completion",
        "Print a script that completes commands, options and run ids in your shell.",
        "It changes nothing by itself: load it where your shell reads its settings. Run ids come\n"
        "from the store or server that is meant, the newest first.",
        (
            "pullcord completion bash",
            "pullcord completion zsh",
            "pullcord completion fish",
        ),
    ),
    "doctor": Verb(
        "doctor",
        "Check the store, this machine, and whether every run has somebody to drive it.",
        "Also which settings count, and where each comes from: a flag, the environment, the\n"
        "nearest pullcord.toml, or the one in ~/.config/pullcord. Changes nothing. Exit status 1\n"
        "if something needs attention.",
        ("pullcord doctor", "pullcord doctor --json"),
    ),
    "demo": Verb(
        "serve",
        "See it in the browser: agents that write a churn report, and the page to stop them.",
        "No key and no network: the model is scripted, unless --model names a real one. Uses a\n"
        "store of its own that is thrown away.",
        ("pullcord demo", "pullcord demo --model openai:gpt-5"),
    ),
    "tour": Verb(
        "tour",
        "See it: a report is paused, redirected, resumed and cancelled, in twenty seconds.",
        "Uses a store of its own that is thrown away.",
        ("pullcord tour",),
    ),
}


def described(name: str) -> argparse.ArgumentParser:
    """The words of one command alone."""
    parser = argparse.ArgumentParser(prog=f"pullcord {name}", formatter_class=_Formatter)
    _describe(parser, name)
    return parser


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """As wide as the terminal. argparse would ask shutil for that, which loads three archivers, and
    asks for every argument that is described."""

    def __init__(self, prog: str) -> None:
        said = os.environ.get("COLUMNS", "")
        columns = int(said) if said.isdecimal() else 0
        with suppress(OSError, ValueError):  # it is no terminal
            columns = columns or os.get_terminal_size(sys.stdout.fileno()).columns
        super().__init__(prog, width=(columns or 80) - 2)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong as JSON to whoever wants JSON."""

    def error(self, message: str) -> NoReturn:
        if wrong := re.match(r"argument COMMAND: invalid choice: '(.{1,40}?)' ", message):
            message = _no_command(wrong[1])
        if "--json" in sys.argv[1:]:
            sys.stdout.write(to_json({"error": "Usage", "message": message}))
            self.exit(2)
        super().error(message)


def _no_command(word: str) -> str:
    near: list[str] = difflib.get_close_matches(word, VERBS, n=1)
    meant = f"Did you mean: pullcord {near[0]}" if near else "See what there is: pullcord --help"
    return f"there is no command {word!r}. Nothing was done. {meant}"


def parse(argv: list[str]) -> argparse.Namespace:
    """Return the parsed command line. Exits with 2 and the right help if it makes no sense."""
    parser = _Parser(
        prog="pullcord",
        description="The cord that stops an AI agent: pause, redirect, resume, cancel.",
        epilog=f"{PLACES}\n\n{STATUS}",
        formatter_class=_Formatter,
    )
    parser.add_argument("--version", action="version", version=f"pullcord {__version__}")
    # `prog` is given, because argparse would load more than all of us to find it out.
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True, prog="pullcord")
    # Only the command that is used is described in full: argparse is not cheap.
    used = argv[0] if argv and argv[0] in VERBS else None
    for name, verb in VERBS.items():
        if used in (None, name):
            examples = "\n".join(f"  {example}" for example in verb.examples)
            described = verbs.add_parser(
                name,
                help=verb.summary,
                description=f"{verb.summary}\n\n{verb.text}",
                epilog=f"Examples:\n{examples}\n\n{STATUS}",
                formatter_class=_Formatter,
            )
            _describe(described, name)
    return parser.parse_args(argv)


def _describe(parser: argparse.ArgumentParser, name: str) -> None:
    _add_subject(parser, name)
    _add_words(parser, name)
    _add_manner(parser, name)


def _add_subject(parser: argparse.ArgumentParser, name: str) -> None:
    """What it is about."""
    add = parser.add_argument
    if name == "run":
        add("target", metavar="FILE.py:NAME", help="on a server: NAME, an agent that it knows")
        add("input", metavar="INPUT", nargs="?", default="null")
        add("--thread", help="the conversation it belongs to")
        add("--run-id", help="its id; made up if not given")
        add("--model", default="", help="the model to use instead of the agent's own")
        _add_limits(parser)
    elif name == "ps":
        add("--all", action="store_true", help="also those that have ended")
        add("--limit", type=int, default=50)
    elif name in ("approvals", "attention"):
        add("run", metavar="RUN", nargs="?")
    elif name == "log":
        add(
            "what",
            metavar="WHAT",
            choices=("show", "verify", "export", "head"),
            help="show, verify, export or head",
        )
        add("run", metavar="RUN", nargs="?")
    elif name in ("serve", "demo"):
        _add_serving(parser, name)
    elif name == "grant":
        add("name", metavar="NAME", help="whose name stands beside what is done with it")
        add("--right", choices=("view", "stop", "control", "approve", "admin"), default="view")
        add("--run", default=None, help="only for this run")
        add("--days", type=float, default=30.0, help="how long it counts")
    elif name == "forget":
        _add_forgetting(parser)
    elif name == "completion":
        add("shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish")
    elif name == "kill-switch":
        add("act", metavar="ACT", choices=("engage", "release", "status"))
        add("--agent", default=None, metavar="NAME", help="only the runs of this agent")
        add("--thread", default=None, metavar="ID", help="only the runs of this conversation")
        add("--reason", default="", help="written into the flag and the stop log")
    elif name == "top":
        add("--theme", choices=("auto", "dark", "light"), default="auto")
    elif name not in ("doctor", "tour"):
        add("run", metavar="RUN")


def _add_words(parser: argparse.ArgumentParser, name: str) -> None:
    """What is said in it."""
    add = parser.add_argument
    if name == "show":
        add("--records", action="store_true", help="also the journal")
    if name == "watch":
        add("--after", default="0", help="the place to go on from")
    for word, how in arguments(name) if name in COMMANDS else ():
        add(word, **how)
    if name == "fork":
        add("--at", type=int, help="the last record that counts")
        add("--instruction", help="something new to know")
        _add_limits(parser)
    if name == "aside":
        add("question", metavar="QUESTION")
    if name == "log":
        add("-o", "--output", metavar="FILE", help="where to write the evidence")
        add("--anchor", metavar="FILE", help="check against this copy of the anchor")
    if name == "continue":
        add("input", metavar="INPUT", nargs="?")


def _add_manner(parser: argparse.ArgumentParser, name: str) -> None:
    """How it is done, by whom and why."""
    add = parser.add_argument
    if name in ("resume", "fork", "aside", "continue", "undo"):
        add("--detach", action="store_true", help="only record it, drive nothing here")
    if name in ("pause", "cancel"):
        add("--wait", action="store_true", help="return when it is in effect")
        add("--timeout-s", type=float, help="with --wait: give up after this long")
    if name in COMMANDS or name == "forget":
        add("--reason", default="", help="shown to whoever looks at the run later")
    if name in COMMANDS:
        add("--key", help="the same key gets the same answer, however often it is sent")
    if name in COMMANDS or name in (
        "run", "fork", "aside", "continue", "top", "kill-switch", "forget",
    ):  # fmt: skip
        add("--by", default=None, help="who asks (default: you)")
    if name in ("tour", "demo"):
        add("--pace", type=float, default=1.0, help="0.1 plays it ten times as fast")
    if name not in ("tour", "demo", "completion"):
        add(
            "--store",
            default=None,
            help="the store: a file, or postgresql://… (default: $PULLCORD_STORE or pullcord.db)",
        )
        if VERBS[name].is_for_servers:
            add("--server", metavar="URL", default=None, help="a server instead of a store")
            add("--token-file", metavar="FILE", help="the token for it (default: $PULLCORD_TOKEN)")
            add("--insecure", action="store_true", help="allow http:// to another machine")
        if name != "top":
            add("--json", action="store_true", help="print JSON")


def _add_serving(parser: argparse.ArgumentParser, name: str) -> None:
    add = parser.add_argument
    if name == "serve":
        add("files", metavar="FILE.py", nargs="*", help="whose agents are driven here")
        add("--host", default="127.0.0.1", help="the address to listen on")
        add("--allow-host", action="append", default=[], metavar="NAME[:PORT]")
        add("--allow-origin", action="append", default=[], metavar="ORIGIN")
        add("--open", action="store_true", help="open the page in a browser")
    else:
        add("--model", default="", help="a real model instead of the scripted one")
        add("--no-open", dest="open", action="store_false", help="do not open a browser")
    port = None if name == "serve" else 8421
    add("--port", type=int, default=port, help="0: any that is free (default: 8421)")


def _add_forgetting(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("runs", metavar="RUN", nargs="*")
    add("--older-than", metavar="AGE", default=None, help="ended so long ago: 90d, 12h, 4w")
    add("--thread", metavar="ID", default=None, help="on this thread")
    add("--of", metavar="NAME", default=None, help="started by this person or program")
    add(
        "--state",
        action="append",
        default=[],
        choices=("completed", "cancelled", "failed", "stopped"),
        help="only those that ended so; may be given again",
    )
    add("--yes", action="store_true", help="delete, do not only say what would be")
    add("--drop-thread-name", action="store_true", help="list each run under its own id")
    add("--rewrite", action="store_true", help="write the whole file anew; others wait")


def _add_limits(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--limit",
        action="append",
        default=[],
        metavar="CAP=VALUE",
        help="stop at this: steps, tool_calls, tokens, usd, working_s; may be given again",
    )
    add(
        "--on-exhausted",
        choices=("stop", "wrap_up", "pause_and_ask"),
        default=None,
        help="what happens then (default: pause_and_ask)",
    )


def store_path(given: str | None) -> str:
    return given or os.environ.get("PULLCORD_STORE") or "pullcord.db"
