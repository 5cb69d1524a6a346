"""Writing any value as JSON text that can always be encoded and stored."""

from __future__ import annotations

import json
from typing import Any

from nbagent.core.messages import well_formed


def json_text(value: Any) -> str:
    """The value as JSON text. An object that JSON can't hold is written as the name of its type.

    >>> json_text({"city": "Zürich", "when": object()})
    '{"city": "Zürich", "when": "object"}'
    """
    return well_formed(json.dumps(value, ensure_ascii=False, default=lambda other: type(other).__name__))
