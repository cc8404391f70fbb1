"""Real shells that complete a command line, as they do for whoever presses Tab."""

import os
import pty
import shutil
import subprocess
import threading
from pathlib import Path

from tests.cli.terminal import Terminal

_ZSH = r"""
PS1='> '; unsetopt beep; LISTMAX=0
autoload -Uz compinit; compinit -D
eval "$(pullcord completion zsh)"
tell-line() { print -r -- "$BUFFER" > $LINE; BUFFER= }
zle -N tell-line; bindkey '^X^T' tell-line
print -r -- ready > $LINE
"""


def path_of(shell: str) -> str:
    """Where it is. `make test` installs it; without it this fails, and is not left out."""
    found = shutil.which(shell)
    assert found, f"{shell} is missing, and its completion is not tested: apt-get install {shell}"
    return found


def fish(pullcord: Terminal, *lines: str) -> list[list[str]]:
    """What fish offers for each of these lines."""
    asks = "".join(f"; complete -C {line!r}; echo @" for line in lines)
    script = f"pullcord completion fish | source{asks}"
    done = subprocess.run(
        [path_of("fish"), "--no-config", "-c", script],
        env=pullcord.env,
        capture_output=True,
        text=True,
        cwd=pullcord.folder,
        timeout=60,
    )
    assert done.stderr == ""
    return [offered.split() for offered in done.stdout.split("@\n")[:-1]]


class Zsh:
    """zsh in a pseudo-terminal. It tells the line as it stands after a Tab by way of a pipe."""

    def __init__(self, pullcord: Terminal, folder: Path) -> None:
        self._line = folder / "line"
        os.mkfifo(self._line)
        rc = folder / "zsh"
        rc.mkdir()
        (rc / ".zshrc").write_text(_ZSH)
        self._keyboard, theirs = pty.openpty()
        env = pullcord.env | {"ZDOTDIR": str(rc), "LINE": str(self._line), "TERM": "xterm"}
        self._process = subprocess.Popen(
            [path_of("zsh"), "-i", "-d"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=env,
            cwd=pullcord.folder,
            start_new_session=True,
        )
        os.close(theirs)
        self._drawn = bytearray()
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._told() == "ready"

    def tab(self, words: str) -> str:
        """The line after Tab."""
        os.write(self._keyboard, f"{words}\t\x18\x14".encode())
        return self._told()

    def listed(self, words: str, *offered: str) -> list[str]:
        """What is listed after Tab, where that is several things, in their order on the screen."""
        with self._news:
            self._drawn.clear()
            os.write(self._keyboard, f"{words}\t".encode())
            self._news.wait_for(lambda: all(one.encode() in self._drawn for one in offered))
            return sorted(offered, key=lambda one: self._drawn.index(one.encode()))

    def _told(self) -> str:
        with open(self._line, encoding="utf-8") as line:
            return line.read().removesuffix("\n")

    def _read(self) -> None:
        while True:
            try:
                drawn = os.read(self._keyboard, 65536)
            except OSError:  # it is gone
                return
            with self._news:
                self._drawn += drawn
                self._news.notify_all()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        os.close(self._keyboard)
