"""The control plane over HTTP: `app(runtime, authorize=...)`, to be mounted in an ASGI app."""

from pullcord.server.app import Server as Server
from pullcord.server.app import app as app
from pullcord.server.bounds import Bounds as Bounds
from pullcord.server.credentials import Keeper as Keeper
from pullcord.server.credentials import Kept as Kept
from pullcord.server.credentials import Session as Session
from pullcord.server.handler_context import Runs as Runs
from pullcord.server.rights import Grant as Grant
