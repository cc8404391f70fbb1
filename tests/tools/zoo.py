"""Tools that do not want to be stopped. Each says `here` when it has done its worst.

All of them end by themselves in the end, work in a den of their own and leave marks of it (see
census.py): whatever becomes of the code under test, they are found, and they are bounded.
"""

import ctypes
import hashlib
import itertools
import mmap
import operator
import os
import platform
import pty
import resource
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple, NoReturn, TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

LIFE_S: Final = 40
HERE: Final = b"here"
NOBODY: Final = 65534
BURST: Final = 150
MUCH_BYTES: Final = 200 * 1024 * 1024
LINE_BYTES: Final = 64 * 1024 * 1024
GARBAGE: Final = b'\x00\xff{"result": \n[g 0 1\nexit 0 0\nready 1\n'
_PR_SET_CHILD_SUBREAPER: Final = 36
_CLONE_VFORK: Final = 0x4000
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
_kept: list[mmap.mmap] = []


class Beast(NamedTuple):
    """A tool, and what becomes of it when it is asked to stop."""

    what: Callable[..., object] | tuple[str, ...]  # a command finds its den in $0
    rung: str = "terminated"
    size: int = 1  # so many processes at least
    answer: bytes = b""
    says: bytes = HERE
    needs_root: bool = False
    is_busy: bool = False


class End(NamedTuple):
    """How a tool ends that nobody stops."""

    status: int = 0
    left: int = 0
    answer: bytes = b""


LIVING: Final[dict[str, Beast]] = {}  # until somebody stops them
ENDING: Final[dict[str, tuple[Beast, End]]] = {}  # by themselves


def lives(**how: Any) -> Callable[[Function], Function]:
    def note(function: Function) -> Function:
        LIVING[function.__name__] = Beast(function, **how)
        return function

    return note


def ends(**how: Any) -> Callable[[Function], Function]:
    def note(function: Function) -> Function:
        ENDING[function.__name__] = (Beast(function), End(**how))
        return function

    return note


# --- alone ---


@lives()
def sleeps(den: str) -> None:
    _here(den)
    _rest()


@lives(rung="killed")
def ignores_sigterm(den: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _here(den)
    _rest()


@lives(rung="killed")
def catches_sigterm_and_goes_on(den: str) -> None:
    signal.signal(signal.SIGTERM, _nothing)
    _here(den)
    _rest()


@lives(rung="killed")
def blocks_every_signal(den: str) -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    _here(den)
    _rest()


@lives(rung="killed")
def swallows_every_exception(den: str) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    _here(den)
    end = time.monotonic() + LIFE_S
    while time.monotonic() < end:
        try:
            time.sleep(LIFE_S)
        except BaseException:
            continue


@lives(rung="killed", is_busy=True)
def hangs_in_c(den: str) -> None:
    """The handler of SIGTERM is Python, and Python's turn never comes."""
    _get_stuck(den, map(operator.call, [partial(hashlib.pbkdf2_hmac, "md5", b"", b"", 2**31 - 1)]))


@lives(rung="killed", is_busy=True)
def hangs_in_c_with_the_gil(den: str) -> None:
    _get_stuck(den, itertools.repeat(0))


def _get_stuck(den: str, forever: Iterator[Any]) -> None:
    """Even that it is here is said from within the one call that does not come back."""
    resource.setrlimit(resource.RLIMIT_CPU, (LIFE_S, LIFE_S))
    signal.signal(signal.SIGTERM, _leave)
    _mark(den)
    sum(itertools.chain(map(operator.call, [partial(os.write, 1, HERE)]), forever))


@lives()
def sleeps_in_c_with_the_gil(den: str) -> None:
    _here(den)
    ctypes.PyDLL(None).sleep(LIFE_S)


@lives()
def becomes_another_program(den: str) -> None:
    _here(den)
    os.execvp("sh", ["sh", "-c", f"sleep {LIFE_S}; :", den])


@lives()
def stops_itself(den: str) -> None:
    _here(den)
    os.kill(os.getpid(), signal.SIGSTOP)
    _rest()


@lives()
def closes_every_descriptor(den: str) -> None:
    _here(den)
    os.closerange(0, 4096)
    _rest()


@lives(needs_root=True)
def becomes_another_user(den: str) -> None:
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
    _here(den, mark=False)
    _rest()


@lives()
def deletes_its_directory(den: str) -> None:
    _mark(den)
    shutil.rmtree(den)
    _here(den, mark=False)
    _rest()


@lives()
def turns_all_limits_down(den: str) -> None:
    _here(den)
    os.umask(0o777)
    for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE):
        resource.setrlimit(limit, (0, 0))
    _rest()


@lives()
def writes_garbage_everywhere(den: str) -> None:
    _litter()
    _here(den)
    _rest()


@lives(answer=b'{"result":"finished"}')
def finishes_when_it_is_stopped(den: str) -> str:
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        _here(den)
        _rest()
    return "finished"


# --- threads ---


@lives()
def starts_a_hundred_threads(den: str) -> None:
    for _ in range(100):
        threading.Thread(target=time.sleep, args=(LIFE_S,), daemon=True).start()
    _here(den)
    _rest()


@lives(size=2)
def has_a_child_without_its_first_thread(den: str) -> None:
    _headless_child(den)
    _rest()


# --- with others ---


@lives(size=2)
def has_a_child_in_another_session(den: str) -> None:
    _child(den, os.setsid)
    _rest()


@lives(rung="killed", size=2)
def has_a_daemon(den: str) -> None:
    _daemon(den)
    _rest()


@lives(rung="killed", size=2)
def has_a_daemon_and_adopts_it(den: str) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    _daemon(den)
    _rest()


@lives(size=2)
def has_a_stopped_child(den: str) -> None:
    _child(den, then=lambda: os.kill(os.getpid(), signal.SIGSTOP))
    _rest()


@lives(size=2)
def has_a_child_that_cleans_up(den: str) -> None:
    """The child needs a while after SIGTERM, and its parent is gone long before."""

    def clean_up(*_: object) -> None:
        time.sleep(0.05)
        with open(f"{den}/cleaned", "w"):
            os._exit(0)

    _child(den, lambda: signal.signal(signal.SIGTERM, clean_up))
    _rest()


@lives(size=BURST)
def is_many(den: str) -> None:
    for _ in range(BURST):
        if os.fork() == 0:
            _mark(den)
            time.sleep(LIFE_S)
            os._exit(0)
    _here(den)
    _rest()


@lives(rung="killed", is_busy=True)
def forks_on_and_on(den: str) -> None:
    """Whoever is looked at is dead already, and its successor runs."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _here(den)
    end = time.monotonic() + LIFE_S
    if os.fork() == 0:
        while time.monotonic() < end:
            if os.fork():
                os._exit(0)
        os._exit(0)
    _rest()


@lives(size=2)
def spawns(den: str) -> None:
    os.posix_spawnp("sh", ["sh", "-c", f"sleep {LIFE_S}; :", den], os.environ)
    _here(den)
    _rest()


@lives(size=2)
def waits_in_vfork(den: str) -> None:
    """A parent that the kernel holds until its child becomes another program. It never does."""
    _mark(den)
    if ctypes.CDLL(None).syscall(_CLONE[platform.machine()], _CLONE_VFORK | 17, 0, 0, 0, 0) == 0:
        _here(den)
        _rest()
    _rest()


@lives(size=2)
def sits_at_a_terminal(den: str) -> None:
    _mark(den)
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp("cat", ["cat"])
    os.write(terminal, b"are you there?\n")
    os.read(terminal, 1)
    _here(den)
    _rest()


@lives()
def makes_zombies(den: str) -> None:
    _zombies()
    _here(den)
    _rest()


@lives()
def stops_its_parent(den: str) -> None:
    os.kill(_holder(), signal.SIGSTOP)
    _here(den)
    _rest()


def kills_its_parent(den: str) -> None:
    """In a namespace of its own it cannot, and goes on."""
    _child(den, os.setsid)
    os.kill(_holder(), signal.SIGKILL)
    _rest()


LIVING.update(
    {
        "nohup": Beast(("sh", "-c", f"nohup sleep {LIFE_S} & echo here; wait"), size=2),
        "setsid": Beast(
            ("sh", "-c", f"setsid -f sleep {LIFE_S}; echo here; exec sleep {LIFE_S}"), size=2
        ),
        "script": Beast(
            ("sh", "-c", f"exec script -qec \"trap '' TERM; echo here; sleep {LIFE_S}\" /dev/null"),
            rung="killed",
            size=2,
        ),
        "a-shell-that-loops": Beast(
            ("sh", "-c", "trap '' TERM; echo here; for _ in $(seq 4000); do sleep 0.01; done"),
            rung="killed",
        ),
        "yes": Beast(("yes",), says=b"/", is_busy=True),
        "yes-to-its-errors": Beast(("sh", "-c", "echo here; exec yes >&2"), is_busy=True),
        "zeros": Beast(("sh", "-c", "exec cat /dev/zero"), says=b"\0", is_busy=True),
    }
)


# --- those that end by themselves ---


@ends(answer=b'{"result":"fine"}')
def answers(den: str) -> str:
    _here(den)
    return "fine"


@ends(answer=b'{"error":"SystemExit: 3"}')
def raises(den: str) -> None:
    _here(den)
    raise SystemExit(3)


@ends()
def leaves_without_an_answer(den: str) -> None:
    _here(den)
    os._exit(0)


@ends(status=-signal.SIGSEGV)
def crashes(den: str) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _here(den)
    ctypes.string_at(0)


@ends()
def closes_everything_and_returns(den: str) -> str:
    _here(den)
    os.closerange(0, 4096)
    return "fine"


@ends(answer=GARBAGE + b'{"result":"fine"}')
def writes_garbage_and_returns(den: str) -> str:
    _litter()
    _here(den)
    return "fine"


@ends(answer=b'{"result":"fine"}')
def stops_its_parent_and_returns(den: str) -> str:
    os.kill(_holder(), signal.SIGSTOP)
    _here(den)
    return "fine"


@ends(answer=b'{"result":"fine"}')
def makes_zombies_and_returns(den: str) -> str:
    _zombies()
    _here(den)
    return "fine"


@ends(left=1, answer=b'{"result":"fine"}')
def leaves_a_daemon(den: str) -> str:
    _daemon(den)
    return "fine"


@ends(left=10, answer=b'{"result":"fine"}')
def leaves_ten(den: str) -> str:
    for _ in range(10):
        _daemon(den)
    return "fine"


@ends(left=1, answer=b'{"result":"fine"}')
def leaves_a_stopped_child(den: str) -> str:
    _child(den, then=lambda: os.kill(os.getpid(), signal.SIGSTOP))
    return "fine"


@ends(left=1, answer=b'{"result":"fine"}')
def leaves_a_child_without_its_first_thread(den: str) -> str:
    _headless_child(den)
    return "fine"


@ends(status=-signal.SIGKILL, left=1)
def kills_its_whole_group(den: str) -> None:
    _child(den, os.setsid)
    os.killpg(0, signal.SIGKILL)


ENDING.update(
    {
        "grandchild-holds-stdout": (
            Beast(("sh", "-c", f"sleep {LIFE_S} & echo here")),
            End(left=1),
        ),
        "nohup-and-exit": (
            Beast(("sh", "-c", f"nohup sleep {LIFE_S} >&2 & echo here; exit 3")),
            End(status=3, left=1),
        ),
    }
)


def writes_much(den: str) -> None:
    _mark(den)
    part = b"much\n" * (MUCH_BYTES // 5 // 64)
    for _ in range(64):
        _write(part)
    _write(b"-" * (MUCH_BYTES - 64 * len(part)))


def writes_one_long_line(den: str) -> None:
    _mark(den)
    _write(b"x" * LINE_BYTES)


def counts(den: str, to: int) -> int:
    """Numbers from itself and from a child in turn, one after the other."""
    _mark(den)
    for number in range(0, to, 2):
        print(number, flush=True)
        if os.fork() == 0:
            os.write(1, b"%d\n" % (number + 1))
            os._exit(0)
        os.wait()
    return to


def ends_soon(den: str, after_s: float) -> str:
    _here(den)
    time.sleep(after_s)
    return "fine"


def measures(den: str, text: str) -> int:
    return len(text)


# --- in cgroups (only where it is in one of its own) ---


def hides_in_a_cgroup_below(den: str) -> None:
    place = f"{cgroup_of_this_process()}/below"
    os.mkdir(place)
    _enter(place)
    _write(f"{place}\n".encode())
    _here(den)
    _rest()


def moves_to_another_cgroup(den: str, place: str) -> None:
    _child(den, lambda: _enter(place))
    _rest()


def cgroup_of_this_process() -> str:
    with open("/proc/self/mountinfo") as mounts, open("/proc/self/cgroup") as mine:
        top = next(line.split()[4] for line in mounts if " - cgroup2 " in line)
        return (top + next(line[3:].strip() for line in mine if line[:3] == "0::")).rstrip("/")


def _enter(place: str) -> None:
    with open(f"{place}/cgroup.procs", "w") as file:
        file.write("0")


# --- what they have in common ---


def _holder() -> int:
    """Its parent, if that is who holds it, and not somebody who has adopted it meanwhile."""
    parent = os.getppid()
    if os.readlink("/proc/self") == str(os.getpid()):  # else it is in a namespace of its own
        with open(f"/proc/{parent}/cmdline", "rb") as file:
            assert b"pullcord.warden" in file.read()
    return parent


def _mark(den: str) -> None:
    """A file that is open and mapped, for whoever is forked and whatever is executed from here."""
    fd = os.open(f"{den}/mark", os.O_RDWR | os.O_CREAT, 0o666)
    os.ftruncate(fd, mmap.PAGESIZE)
    os.set_inheritable(fd, True)
    _kept.append(mmap.mmap(fd, mmap.PAGESIZE))


def _here(den: str, *, mark: bool = True) -> None:
    if mark:
        _mark(den)
    _write(HERE + b"\n")


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _rest() -> NoReturn:
    """Not quite at rest: whether it is frozen can be seen."""
    end = time.monotonic() + LIFE_S
    while time.monotonic() < end:
        time.sleep(0.01)
    os._exit(0)


def _child(
    den: str,
    first: Callable[[], object] = lambda: None,
    *,
    then: Callable[[], object] = lambda: None,
) -> None:
    """A child that does this, says that it is here, does that, and rests. Returns when it is."""
    read, write = os.pipe()
    if os.fork() == 0:
        first()
        _here(den)
        os.close(write)
        os.close(read)
        then()
        _rest()
    os.close(write)
    os.read(read, 1)
    os.close(read)


def _headless_child(den: str) -> None:
    """A child whose main thread is over: it looks like a corpse, and is not one."""
    read, write = os.pipe()
    if os.fork() == 0:
        threading.Thread(target=_live_on, args=(den, read, write)).start()
        ctypes.CDLL(None).pthread_exit(None)
    os.close(write)
    os.read(read, 1)
    os.close(read)


def _live_on(den: str, *ends: int) -> NoReturn:
    me = os.readlink("/proc/self")  # in a namespace os.getpid() is another number
    for _ in range(LIFE_S * 1000):
        with open(f"/proc/self/task/{me}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":
                break
        time.sleep(0.001)
    _here(den)
    for end in ends:
        os.close(end)
    _rest()


def _daemon(den: str) -> None:
    """Forked twice, in a session of its own, and deaf."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in (signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN)
            _here(den)
            os.close(read)
            os.close(write)
            _rest()
        os._exit(0)
    os.wait()
    os.close(write)
    os.read(read, 1)
    os.close(read)


def _zombies() -> None:
    for _ in range(50):
        if (pid := os.fork()) == 0:
            os._exit(0)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def _litter() -> None:
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            os.write(int(name), GARBAGE)


def _nothing(*_: object) -> None:
    pass


def _leave(*_: object) -> NoReturn:
    os._exit(0)
