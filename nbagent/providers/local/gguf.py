"""Reading the chat template of a GGUF file without loading the model.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (little-endian, version 2 and later).
"""

from __future__ import annotations

import mmap
import os
import struct

_STRING, _ARRAY = 8, 9
#: Sizes in bytes of the value types that have a fixed size.
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}


def chat_template(path: str | os.PathLike[str]) -> str:
    """The chat template (Jinja) of a model file; empty if it has none or is not a GGUF file."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _find(data, "tokenizer.chat_template") if data[:4] == b"GGUF" else ""
    except (OSError, ValueError, KeyError, struct.error):  # an empty or broken file: loading it raises a readable error
        return ""


def _find(data: mmap.mmap, wanted: str) -> str:
    (count,) = struct.unpack_from("<Q", data, 16)
    at = 24
    for _ in range(count):
        key, at = _string(data, at)
        (kind,) = struct.unpack_from("<I", data, at)
        if key == wanted and kind == _STRING:
            return _string(data, at + 4)[0]
        at = _skip(data, at + 4, kind)
    return ""


def _string(data: mmap.mmap, at: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, at)
    return data[at + 8 : at + 8 + length].decode("utf-8", "replace"), at + 8 + length


def _skip(data: mmap.mmap, at: int, kind: int) -> int:
    """The position after a value."""
    if kind == _STRING:
        return at + 8 + int(struct.unpack_from("<Q", data, at)[0])
    if kind != _ARRAY:
        return at + _SIZES[kind]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in _SIZES:
        return at + _SIZES[inner] * int(count)
    for _ in range(count):
        at = _skip(data, at, inner)
    return at
