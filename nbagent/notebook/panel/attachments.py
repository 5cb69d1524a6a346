"""Creates attachments from variables, cells and files that a prompt mentions."""

from __future__ import annotations

import re
from typing import Any

from nbagent.chat.attachments import Attachment, parts_of
from nbagent.chat.files import MAX_CHARS, MAX_FILE_BYTES, checked, from_bytes
from nbagent.core.content.documents import document_note
from nbagent.core.content.images import Part, joined_content
from nbagent.core.messages import Content
from nbagent.errors import ConfigurationError
from nbagent.functions.secret_values import without_secrets
from nbagent.notebook.kernel_tools.cell_outputs import CellOutputs
from nbagent.notebook.kernel_tools.described import described
from nbagent.notebook.kernel_tools.variables import brief, user_names

#: Variables that an empty panel lists.
MAX_NAMED = 4
#: What to do with a file that can't be attached.
REMEDY = "Load it into a variable, and mention the variable or a part of it"


def from_value(name: str, value: Any) -> Attachment:
    """Create an attachment from a variable. Its content is the same as for `{name}` in a cell, without secrets."""
    return checked(f"@{name}", about_value(name, value), described(name, value, max_chars=MAX_CHARS))


def about_value(name: str, value: Any) -> str:
    """A short description of a variable, such as `DataFrame 344×7`, without secrets."""
    about = str(without_secrets(brief(value), name=name))
    return re.sub(r"of shape \((.*?),?\)", lambda found: found[1].replace(", ", "×"), about)


def data_in(shell: Any) -> list[tuple[str, str]]:
    """The newest tables and arrays with their descriptions. If there are none, the newest lists and dicts."""
    variables = {} if shell is None else shell.user_ns
    names = reversed(user_names(variables, getattr(shell, "user_ns_hidden", {})))
    known = [(name, variables[name]) for name in names if name in variables]
    shaped = [each for each in known if re.search(r" of shape \(\d", brief(each[1]))]
    found = shaped or [each for each in known if isinstance(each[1], (list, dict)) and each[1]]
    return [(name, about_value(name, value)) for name, value in found[:MAX_NAMED]]


def from_cell(number: int, outputs: CellOutputs) -> Attachment:
    """Create an attachment from the source and outputs of the cell `In [number]`, without secrets. Raises `ToolError`
    if there is no such cell.
    """
    return checked(f"@cell:{number}", f"In [{number}]", without_secrets(outputs.read(number), MAX_CHARS))


def from_file(name: str, path: str) -> Attachment:
    """Create an attachment from a file with text, a table or an image, without secrets. Raises `ConfigurationError` if
    the file can't be read or attached.
    """
    try:
        with open(path, "rb") as file:
            return from_bytes(name, file.read(MAX_FILE_BYTES + 1), REMEDY)
    except OSError as error:
        raise ConfigurationError(f"{name} can't be read: {error.strerror or error}.") from None


def from_resource(name: str, content: Content) -> Attachment:
    """Create an attachment from an MCP server's resource, without secrets."""
    parts = [
        {**part, "text": str(without_secrets(part["text"], MAX_CHARS))} if part["type"] == "text" else part
        for part in parts_of(content)
    ]
    return checked(name, "resource of an MCP server", joined_content(parts))


def from_document(part: Part) -> Attachment:
    """Create an attachment from a document that is already a message part."""
    return Attachment(part["name"], document_note(part).strip("[]"), [part])
