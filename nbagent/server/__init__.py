"""The agent over HTTP, for any client and many users.

`nbagent serve` runs it. In your own program, call `create_app`, which returns an ASGI application:

>>> from nbagent.server import ServerSettings, create_app
>>> app = create_app(agent, ServerSettings(tokens=[token]))                 # doctest: +SKIP
"""

from importlib import import_module
from typing import Any

_WHERE = {"ServerSettings": "settings", "create_app": "app", "open_store": "conversations.opening"}

__all__ = ["ServerSettings", "create_app", "open_store"]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'nbagent.server' has no attribute {name!r}")
    try:
        return getattr(import_module(f"nbagent.server.{_WHERE[name]}"), name)
    except ModuleNotFoundError as error:
        from nbagent.errors import missing_extra

        raise missing_extra("The server", "server") from error
