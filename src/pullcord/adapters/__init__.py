"""The public port for adapters, which run the agents of a framework under Pullcord.

A package registers its adapter by an entry point in the group `pullcord.adapters`. Its name is that
of the framework's package: `pydantic_ai = "pullcord.agents.pydantic_ai:adapt"`. That function
receives an object of the framework and returns a `Body`, or None. It raises `InvalidInput` for an
agent with parts that the adapter cannot stop, and names them.

The runtime enters the body with a `Context`. The adapter makes an `AgentRun` of it, and sends every
model request and every tool call through that. `Interrupted`, from any door, passes through the
framework. An adapter may swallow it where the framework would report it as an error, because every
later door raises it again.

- `Body`, `Priced`: the interface of an agent. If a body has a method `tools` that returns a
  `Listing`, the runtime checks the names of policies before the runs begin.
- `AgentRun`, `current_run`: the doors, people's instructions, kept values, earlier runs.
- `Request`, `ModelAnswer`, `TextKind`, `Wait`: one model request. Viewers see its answer as it
  comes, and a control holds or cuts it. `InstructionArrived` and `CutOff` then pass through the
  framework.
- `watch_client`, `patience`, `Meter`: its sockets, its errors, its price.
- `ToolRequest`, `Natively`: one tool call. `RunIn` and `can_be_shipped` say where it can run,
  `as_declared` gives arguments and results their types, `ToolFailed` and `ResultLost` say how it
  ended.
- `Conversation`, `Dialect`: messages, stored once and valid for every provider. `known_before` and
  `known_now` return them. `PastRun`, `PastRequest` and `Fate` describe an earlier run.
- `Json`, `dump`, `load`, `Secrets`: stored values, and the secrets that they must not contain.

The port is provisional: it may change with a minor version, and the changelog says how.
"""

from pullcord.adapters.conversation import Conversation, Dialect, known_before, known_now
from pullcord.adapters.past import Fate, PastRequest, PastRun
from pullcord.adapters.patience import patience
from pullcord.adapters.prices import Meter
from pullcord.adapters.run import AgentRun, current_run
from pullcord.adapters.tools import ToolRequest
from pullcord.adapters.transports import watch_client
from pullcord.core.calls import as_declared
from pullcord.core.events import RunIn
from pullcord.core.text.secrets import Secrets
from pullcord.core.values import Json, dump, load
from pullcord.runtime.agents import Body, Priced
from pullcord.runtime.doors.model_request import (
    CutOff,
    InstructionArrived,
    ModelAnswer,
    Request,
    TextKind,
    Wait,
)
from pullcord.runtime.policy_names import Listing
from pullcord.runtime.processes.warden_client import can_be_shipped
from pullcord.runtime.steps.failures import ResultLost, ToolFailed
from pullcord.runtime.tools.tool_call import Natively

__all__ = [
    "AgentRun",
    "Body",
    "Conversation",
    "CutOff",
    "Dialect",
    "Fate",
    "InstructionArrived",
    "Json",
    "Listing",
    "Meter",
    "ModelAnswer",
    "Natively",
    "PastRequest",
    "PastRun",
    "Priced",
    "Request",
    "ResultLost",
    "RunIn",
    "Secrets",
    "TextKind",
    "ToolFailed",
    "ToolRequest",
    "Wait",
    "as_declared",
    "can_be_shipped",
    "current_run",
    "dump",
    "known_before",
    "known_now",
    "load",
    "patience",
    "watch_client",
]
