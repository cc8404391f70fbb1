"""Ways to keep a tree of processes together, the best one first.

`cgroup`: the kernel keeps the list, freezes and kills it as one. `namespace`: the tree has a
first process of its own and ends with it. `cgroup+namespace`: both, so that the tree also ends
with its holder, and can be found without it. `sweep`: the holder adopts every orphan, and the tree
is stopped, listed and killed until nothing is left of it. The others cannot be outrun.
"""

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Literal, Protocol, TypeAlias

from pullcord.process import is_gone, new_owner
from pullcord.warden.kernel import (
    children_of,
    descendants_of,
    enter_new_pid_namespace,
    is_alive,
    is_still,
    send,
)

Kind: TypeAlias = Literal["cgroup+namespace", "cgroup", "namespace", "sweep"]
KINDS: Final[tuple[Kind, ...]] = ("cgroup+namespace", "cgroup", "namespace", "sweep")
_PASSES_MAX: Final = 200
_CLEAR_S: Final = 1.0
_OURS: Final = re.compile(r"pullcord-(p[^.]+)\.[0-9a-f]*")


class Fence(Protocol):
    """Around one tree. `holder` is the process at its top, which does nothing but hold it."""

    kind: Kind
    needs_init: bool  # the holder's child, not the holder, is at the top of the tree

    def enter(self) -> None:
        """Called by the holder itself: what it forks from here on is inside."""
        ...

    def members(self, holder: int) -> set[int]:
        """Who is inside and alive, the holder apart."""
        ...

    def kill(self, holder: int) -> None:
        """Kill what is inside. May have to be called again, until there are no members."""
        ...

    def freeze(self, holder: int) -> None: ...
    def is_frozen(self, holder: int) -> bool: ...
    def thaw(self, holder: int) -> None: ...
    def close(self) -> bool:
        """Remove what was made for it. False: not possible yet."""
        ...


class Sweep:
    """Orphans are adopted by the holder. Stopped first, so that nothing escapes by forking."""

    kind: Kind = "sweep"
    needs_init = False

    def __init__(self) -> None:
        self._stopped: set[int] = set()

    def enter(self) -> None:
        pass

    def members(self, holder: int) -> set[int]:
        return descendants_of(holder)

    def kill(self, holder: int) -> None:
        send(self._stop_all(holder), signal.SIGKILL)

    def freeze(self, holder: int) -> None:
        running = {pid for pid in self._sight(holder) if not is_still(pid)}
        self._stopped |= self._stop_all(holder, running)

    def is_frozen(self, holder: int) -> bool:
        return all(is_still(pid) for pid in self._sight(holder))

    def thaw(self, holder: int) -> None:
        send(self._stopped & self._sight(holder), signal.SIGCONT)
        self._stopped.clear()

    def close(self) -> bool:
        return True

    def _sight(self, holder: int) -> set[int]:
        """Whom signals are for."""
        return self.members(holder)

    def _stop_all(self, holder: int, first: set[int] | None = None) -> set[int]:
        """Stop everything and return it. What was forked before it stood still is in the next
        pass; two passes without anything new are the end. `first`: leave out what stood before."""
        asleep = self._sight(holder) - first if first is not None else set[int]()
        seen: set[int] = set()
        quiet = 0
        for _ in range(_PASSES_MAX):
            found = self._sight(holder) - seen - asleep
            send(found, signal.SIGSTOP)
            seen |= found
            quiet = 0 if found else quiet + 1
            if quiet == 2:
                break
        return seen


class Namespace(Sweep):
    """A PID namespace: when its first process dies the kernel kills the rest."""

    kind: Kind = "namespace"
    needs_init = True

    def enter(self) -> None:
        enter_new_pid_namespace()

    def members(self, holder: int) -> set[int]:
        return {pid for init in children_of(holder) for pid in descendants_of(init)}

    def kill(self, holder: int) -> None:
        send(children_of(holder), signal.SIGKILL)


class Cgroup(Sweep):
    """A cgroup of version 2. It holds whatever was forked inside, whoever its parent is.

    A tool with enough rights can move to another one. What has, is swept.
    """

    kind: Kind = "cgroup"

    def __init__(self, path: str, *, is_new: bool = True) -> None:
        super().__init__()
        self._path = path
        if is_new:
            os.mkdir(path)

    def enter(self) -> None:
        self._write("cgroup.procs", "0")

    def members(self, holder: int) -> set[int]:
        return self._inside(holder) | self._sight(holder)

    def kill(self, holder: int) -> None:
        if self._sight(holder):
            super().kill(holder)
        self._write("cgroup.kill", "1")
        send(self._inside(holder), signal.SIGKILL)  # see clear_cgroup

    def freeze(self, holder: int) -> None:
        self._write("cgroup.freeze", "1")
        super().freeze(holder)

    def is_frozen(self, holder: int) -> bool:
        with suppress(OSError), open(f"{self._path}/cgroup.events") as file:
            return "frozen 1" in file.read() and super().is_frozen(holder)
        return False

    def thaw(self, holder: int) -> None:
        super().thaw(holder)
        self._write("cgroup.freeze", "0")

    def close(self) -> bool:
        return remove_cgroup(self._path)

    @property
    def path(self) -> str:
        return self._path

    def _inside(self, holder: int) -> set[int]:
        return {pid for pid in inside_cgroup(self._path) - {holder} if is_alive(pid)}

    def _sight(self, holder: int) -> set[int]:
        return descendants_of(holder) - self._inside(holder)

    def _write(self, name: str, text: str) -> None:
        with open(f"{self._path}/{name}", "w") as file:
            file.write(text)


class CgroupAndNamespace(Cgroup):
    """A cgroup, and inside it a PID namespace."""

    kind: Kind = "cgroup+namespace"
    needs_init = True

    def enter(self) -> None:
        super().enter()
        enter_new_pid_namespace()

    def members(self, holder: int) -> set[int]:
        return super().members(holder) - set(children_of(holder))  # the first process is no tool


class Fences:
    """Makes fences of the best kind that this machine offers, or of the one that was asked for."""

    def __init__(self, wanted: str = "auto", *, mark: str = "") -> None:
        """`mark`: by which the kill switch of a store knows what is its own."""
        self._mark = mark
        kinds = KINDS if wanted == "auto" else (wanted,)
        self.kind: Kind = "sweep"
        self.why_not: dict[str, str] = {}
        self.home = ""  # the cgroup above all of ours
        for kind in kinds:
            refusal = self._refusal(kind)
            if not refusal:
                self.kind = kind if kind in KINDS else "sweep"
                return
            self.why_not[kind] = refusal

    def new(self, call: str) -> Fence:
        match self.kind:
            case "cgroup+namespace":
                return CgroupAndNamespace(f"{self.home}/{call}")
            case "cgroup":
                return Cgroup(f"{self.home}/{call}")
            case "namespace":
                return Namespace()
            case "sweep":
                return Sweep()

    def close(self) -> bool:
        """Remove what was made for all of them. False: not possible yet."""
        return not self.home or clear_cgroup(self.home)

    def _refusal(self, kind: str) -> str:
        try:
            match kind:
                case "cgroup+namespace":
                    self._probe_home(lambda group: lambda: _fork_once(_both(group)))
                case "cgroup":
                    self._probe_home(lambda group: Cgroup(group, is_new=False).enter)
                case "namespace":
                    _try_in_child(lambda: _fork_once(enter_new_pid_namespace))
                case _:
                    pass
        except OSError as error:
            self.close()
            self.home = ""
            return error.strerror or str(error)
        return ""

    def _probe_home(self, entering: Callable[[str], Callable[[], None]]) -> None:
        self._make_home()
        group = f"{self.home}/probe"
        os.mkdir(group)
        _try_in_child(entering(group))
        os.rmdir(group)

    def _make_home(self) -> None:
        base = cgroup_of_this_process()
        if base is None:
            raise OSError(0, "no cgroup of version 2 is mounted")
        clear_the_dead(base)
        self.home = f"{base}/pullcord-{new_owner()}.{self._mark}"
        os.mkdir(self.home)
        if not os.path.exists(f"{self.home}/cgroup.kill"):
            raise OSError(0, "this kernel cannot kill a cgroup as one")


def fence_of(spec: dict[str, str]) -> Fence:
    """The fence that another process has made, for whoever is to enter it."""
    if spec["kind"] == "cgroup+namespace":
        return CgroupAndNamespace(spec["path"], is_new=False)
    if spec["kind"] == "cgroup":
        return Cgroup(spec["path"], is_new=False)
    return Namespace() if spec["kind"] == "namespace" else Sweep()


def spec_of(fence: Fence) -> dict[str, str]:
    path = fence.path if isinstance(fence, Cgroup) else ""
    return {"kind": fence.kind, "path": path}


def cgroup_of_this_process() -> str | None:
    mounts = ""
    with suppress(OSError), open("/proc/self/mountinfo") as file:
        mounts = file.read()
    for mount in mounts.splitlines():
        place, _, what = mount.partition(" - ")
        if what.startswith("cgroup2 "):
            with suppress(OSError), open("/proc/self/cgroup") as file:
                for line in file:
                    if line.startswith("0::"):
                        return place.split()[4].rstrip("/") + line[3:].strip().rstrip("/")
    return None


def inside_cgroup(path: str) -> set[int]:
    """Who is in a cgroup, or in one that was made below it. The kernel says 0 for whom it cannot
    name here, in another PID namespace: as the target of a signal that would be ourselves."""
    inside: set[int] = set()
    for place, _, _ in os.walk(path):
        with suppress(OSError), open(f"{place}/cgroup.procs") as file:
            inside |= {int(pid) for pid in file.read().split() if pid != "0"}
    return inside


def clear_cgroup(home: str) -> bool:
    """Kill whatever is left in a cgroup of ours and remove it. False: not possible yet."""
    with suppress(OSError), open(f"{home}/cgroup.kill", "w") as file:
        file.write("1")
    send(inside_cgroup(home), signal.SIGKILL)  # it spares who has lost its first thread
    return remove_cgroup(home)


def remove_cgroup(path: str) -> bool:
    """Remove an empty cgroup and what was made below it. False: not possible yet."""
    for place, _, _ in os.walk(path, topdown=False):
        with suppress(OSError):
            os.rmdir(place)
    return not os.path.exists(path)


def clear_the_dead(base: str) -> None:
    """End what wardens have left that were killed before they could. Of one in another PID
    namespace, or before another boot, nobody here can tell: it is left alone."""
    with suppress(OSError):
        for name in os.listdir(base):
            found = _OURS.fullmatch(name)
            if found and is_gone(found[1]):
                until = time.monotonic() + _CLEAR_S
                while not clear_cgroup(f"{base}/{name}") and time.monotonic() < until:
                    time.sleep(0.002)


def _try_in_child(work: Callable[[], None]) -> None:
    """Do it in a process of its own; raise what it raised."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
        finally:
            os._exit(1)
    number = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if number:
        raise OSError(number, os.strerror(abs(number)))


def _both(group: str) -> Callable[[], None]:
    return CgroupAndNamespace(group, is_new=False).enter


def _fork_once(enter: Callable[[], None]) -> None:
    enter()
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
