"""Mentions with @ in a prompt: `@penguins` (a variable), `@cell:5`, `@data.csv`, `@"my data.csv"`.

Only existing names count as mentions; a quoted name, a file name or a `cell:` number that does not exist is an error.
E-mail addresses, decorators, code and other words stay text. File names are relative to the current folder, as in
`open`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from nbagent.agent.agent import Agent
from nbagent.chat.attachments import Attachment
from nbagent.chat.files import not_attached
from nbagent.core.background import run_sync
from nbagent.core.render import markdown as render
from nbagent.errors import ConfigurationError, MCPServerError, ToolError
from nbagent.functions.formatting import error_summary
from nbagent.functions.secret_values import without_secrets
from nbagent.mcp.client.server import MCPServer
from nbagent.notebook.kernel_tools.cell_outputs import outputs_of
from nbagent.notebook.kernel_tools.variables import is_imported, user_names
from nbagent.notebook.panel.attachments import about_value, from_cell, from_file, from_resource, from_value
from nbagent.text import shortened

_BARE = r"""[^\s"'`,;!?()\[\]{}<>|…—]"""
_MENTION = re.compile(rf"""(?<![\w@./+-])@("[^"\n]+"|{_BARE}+)""")
#: Code blocks, inline code, and the decorators of a function.
_CODE = re.compile(
    r"```[\s\S]*?(?:```|\Z)|`[^`\n]*`|^[ \t]*@[\w.]+(?:\(.*\))?[ \t]*\n(?=[ \t]*(?:@|def\b|class\b|async\b))",
    re.MULTILINE,
)
_CELL = re.compile(r"cell:(\d+)")
#: A word that ends like this means a file, even if there is none.
_FILE = re.compile(
    r"\.(?:csv|tsv|txt|md|rst|log|json|jsonl|yaml|yml|toml|ini|cfg|xml|html|css|js|ts|sql|sh|py|ipynb|r|jl|tex|bib"
    r"|png|jpg|jpeg|gif|webp|pdf|xlsx|parquet)",
    re.IGNORECASE,
)
#: Suggestions of each kind, and files that are looked at in a folder.
MAX_SUGGESTED, MAX_FILES = 12, 2_000
ABOUT_CHARS = 60


class Suggestion(NamedTuple):
    """A completion of a mention: the `text` for the box, and a description."""

    text: str
    about: str


def mentioned_words(text: str) -> list[str]:
    """The possible mentions in the text, without the @ and without duplicates.

    >>> mentioned_words("Is @penguins like @cell:5? Ask ann@example.org, or `@dataclass`.")
    ['penguins', 'cell:5']
    """
    words = [found[1] for found in _MENTION.finditer(_CODE.sub(" ", text))]
    return list(dict.fromkeys(word if word.startswith('"') else word.rstrip(".:") for word in words))


class Mentions:
    """Looks up words among a shell's variables and cells, files, and the resources of the agent's MCP servers.

    `shell` may be None.
    """

    def __init__(self, shell: Any, agent: Agent) -> None:
        self._shell = shell
        self._agent = agent

    def resolve(self, word: str) -> Attachment | None:
        """Create an attachment from the object that the word names, or return None. Raises `ConfigurationError` if the
        object can't be attached.
        """
        name = f"@{word.strip(chr(34))}"
        try:
            return _resource(self._agent, word) or self._resolved(word, name)
        except ConfigurationError:
            raise
        except ToolError as error:
            raise not_attached(name, str(error)) from None
        except Exception as error:  # the user's class is broken
            raise not_attached(name, error_summary(error)) from error

    def _resolved(self, word: str, name: str) -> Attachment | None:
        if (cell := _CELL.fullmatch(word)) and self._shell is not None:
            return from_cell(int(cell[1]), outputs_of(self._shell))
        if word in self._names():
            return from_value(word, self._shell.user_ns[word])
        path = os.path.expanduser(name[1:])
        if os.path.isfile(path):
            return from_file(name, path)
        if word.startswith('"') or _FILE.fullmatch(os.path.splitext(word)[1]):
            raise not_attached(name, f"there is no such file in {os.getcwd()!r}")
        return None

    def suggest(self, typed: str) -> list[Suggestion]:
        """Completions of the characters after an @: variables and cells (newest first), files, and MCP resources."""
        found: list[Suggestion] = []
        for source in (self._variables(typed), self._cells(typed), _files(typed), _resources(self._agent, typed)):
            found += islice(source, MAX_SUGGESTED)
        return found

    def _names(self) -> list[str]:
        if self._shell is None:
            return []
        variables = self._shell.user_ns
        names = user_names(variables, getattr(self._shell, "user_ns_hidden", {}))
        return [name for name in names if not is_imported(variables.get(name))]

    def _variables(self, typed: str) -> Iterator[Suggestion]:
        for name in reversed(self._names()):
            if name.lower().startswith(typed.lower()):
                yield suggestion(name, about_value(name, self._shell.user_ns.get(name)))

    def _cells(self, typed: str) -> Iterator[Suggestion]:
        if self._shell is None:
            return
        sources = self._shell.history_manager.input_hist_raw
        for number in range(len(sources) - 1, 0, -1):
            if f"cell:{number}".startswith(typed) and sources[number].strip():
                line = sources[number].strip().partition("\n")[0]
                yield suggestion(f"cell:{number}", str(without_secrets(line)))


def _files(typed: str) -> Iterator[Suggestion]:
    """Files and folders whose paths start with `typed`. Hidden ones are suggested only once the dot is typed."""
    folder, prefix = os.path.split(typed.lstrip('"'))
    try:
        with os.scandir(os.path.expanduser(folder) or ".") as entries:
            known = sorted((entry.name, entry.is_dir()) for entry in islice(entries, MAX_FILES))
    except OSError:
        return
    for name, is_folder in known:
        if name.lower().startswith(prefix.lower()) and name.startswith(".") <= prefix.startswith("."):
            path = os.path.join(folder, name)
            if render.printable(path) == path and '"' not in path:
                about = "folder" if is_folder else "file"
                path = f"{path}/" if is_folder else path
                yield suggestion(path, about, quoted=typed.startswith('"'), goes_on=is_folder)


def servers_of(agent: Agent) -> dict[str, MCPServer]:
    """The MCP servers that an agent uses, by name."""
    return {each.name: each for each in agent.toolsets if isinstance(each, MCPServer)}


def _resource(agent: Agent, word: str) -> Attachment | None:
    """The MCP resource that a word names, or None. Waits for the server. Raises `ConfigurationError`."""
    name, colon, wanted = word.strip('"').partition(":")
    if not (colon and wanted and (server := servers_of(agent).get(name))):
        return None
    try:
        known = [] if re.match(r"\w[\w.+-]*:", wanted) else run_sync(server.resources())
        uri = next((each.uri for each in known if each.name == wanted), wanted)
        return from_resource(f"@{name}:{wanted}", run_sync(server.read(uri)))
    except MCPServerError as error:
        raise not_attached(f"@{name}:{wanted}", str(error)) from None


def _resources(agent: Agent, typed: str) -> Iterator[Suggestion]:
    """Completions of `typed`: servers and, after the colon, the resources of a connected server."""
    name, colon, start = typed.lstrip('"').partition(":")
    servers = {each: server for each, server in servers_of(agent).items() if server.connection.state == "connected"}
    if not colon:
        for server in servers:
            if server.lower().startswith(name.lower()):
                yield Suggestion(f"@{server}:", "resources of an MCP server")
        return
    if name not in servers:
        return
    try:
        found = run_sync(servers[name].resources())
    except MCPServerError:
        return
    for each in found:
        if each.uri.startswith(start) or each.name.lower().startswith(start.lower()):
            yield suggestion(f"{name}:{each.uri}", each.description or each.name, quoted=typed.startswith('"'))


def suggestion(word: str, about: str, *, quoted: bool = False, goes_on: bool = False) -> Suggestion:
    """A suggestion to mention the word, in quotes if needed. With `goes_on`, the closing quote is omitted."""
    quote = '"' if quoted or re.fullmatch(f"{_BARE}*[^.:]", word) is None else ""
    return Suggestion(f"@{quote}{word}{'' if goes_on else quote}", render.printable(shortened(about, ABOUT_CHARS)))
