"""Engines bring runs to the processes that drive them.

`pullcord.open(..., engine=...)` takes an `Engine`. The default is `InProcess`: the process drives
the runs that it finds. An engine for many machines brings each run to some process and calls
`drive` of its `Worker`. Only the journal decides who owns a run, so an engine may bring one twice
or lose it.

This module is provisional: it may change with a minor version, and the changelog says how.
"""

from pullcord.runtime.engine import Engine, InProcess, Worker

__all__ = ["Engine", "InProcess", "Worker"]
