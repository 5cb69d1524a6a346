"""What tools returned: in memory, then, when there is too much, in the trace's temporary file.

A value is written as Arrow, JSON or bytes if that gives back the same value. Nothing is pickled: of any other value the
text stays that the model read, with a note.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nbagent.core.sizes import TOLD, size_of
from nbagent.trace.table import SpillFile

#: Of longer texts, bytes and Python objects only the text that the model read is kept: writing them holds the event
#: loop for seconds. Tables and arrays are kept whatever their size.
LONGEST_VALUE = 64 * 2**20


class Results(Mapping[str, Any]):
    """Values by `tool_call_id`.

    >>> results = Results()
    >>> results.add("tool_1", {"a": 1}, "the text") > 0
    True
    >>> results.spill(SpillFile())
    >>> results["tool_1"]
    {'a': 1}
    """

    def __init__(self) -> None:
        #: Each value with the text that the model read.
        self._kept: dict[str, tuple[Any, str]] = {}
        #: The functions that read and decode the others.
        self._spilled: dict[str, tuple[Callable[[], bytes], Callable[[bytes], Any]]] = {}

    def add(self, tool_call_id: str, value: Any, text: str) -> int:
        """Keep a value; returns about how many bytes it takes."""
        size, kind = size_of(value), type(value)
        if size > LONGEST_VALUE and kind.__module__.partition(".")[0] not in TOLD:
            value = f"{text}\n[only the text of this {kind.__name__} is kept: it takes about {size:,} bytes]"
            size = size_of(value)
        self._kept[tool_call_id] = value, text
        return size

    def take(self, other: Results) -> None:
        """Keep the values of another trace too; those in its file stay there."""
        self._kept.update(other._kept)
        self._spilled.update(other._spilled)

    def spill(self, file: SpillFile) -> None:
        """Move the values to the file. Raises OSError; the values that are not written yet stay in memory."""
        for tool_call_id, (value, text) in list(self._kept.items()):
            data, decode = _encoded(value, text)
            self._spilled[tool_call_id] = file.append(data), decode
            del self._kept[tool_call_id]

    def __getitem__(self, tool_call_id: str) -> Any:
        if tool_call_id in self._kept:
            return self._kept[tool_call_id][0]
        read, decode = self._spilled[tool_call_id]
        return decode(read())

    def __iter__(self) -> Iterator[str]:
        yield from self._spilled
        yield from self._kept

    def __len__(self) -> int:
        return len(self._spilled) + len(self._kept)


# -- values as bytes --------------------------------------------------------------------------------------------------


def _encoded(value: Any, text: str) -> tuple[bytes, Callable[[bytes], Any]]:
    """The bytes of a value, and the function that makes the same value of them."""
    kind = type(value)
    if kind is bytes:
        return value, bytes
    if kind is str:
        return value.encode("utf-8", "surrogatepass"), lambda data: data.decode("utf-8", "surrogatepass")
    package = kind.__module__.partition(".")[0]
    encode = {"pandas": _as_arrow, "numpy": _as_array}.get(package, _as_json)
    try:
        return encode(value)
    except Exception:  # noqa: BLE001  each library has its own errors for values that it can't write
        note = f"[only the text of this {kind.__name__} is kept: it can't be written to the trace's file]"
        return f"{text}\n{note}".encode("utf-8", "surrogatepass"), lambda data: data.decode("utf-8", "surrogatepass")


def _as_json(value: Any) -> tuple[bytes, Callable[[bytes], Any]]:
    data = json.dumps(value).encode()
    if repr(json.loads(data)) != repr(value):  # a tuple, an enum, keys that are not texts
        raise TypeError("JSON would change the value")
    return data, json.loads


def _as_array(value: Any) -> tuple[bytes, Callable[[bytes], Any]]:
    import numpy as np

    if type(value) is not np.ndarray:
        raise TypeError("not an array")
    file = io.BytesIO()
    np.save(file, value, allow_pickle=False)
    return file.getvalue(), lambda data: np.load(io.BytesIO(data), allow_pickle=False)


def _as_arrow(value: Any) -> tuple[bytes, Callable[[bytes], Any]]:
    import pandas as pd
    import pyarrow as pa

    frame = value.to_frame("value") if type(value) is pd.Series else value
    if type(frame) is not pd.DataFrame:
        raise TypeError("not a table")
    table = pa.Table.from_pandas(frame)
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    is_series, name = frame is not value, getattr(value, "name", None)

    def decode(data: bytes) -> Any:
        made = pa.ipc.open_stream(data).read_all().to_pandas()
        return made["value"].rename(name) if is_series else made

    data = file.getvalue()
    if not decode(data).equals(value) or not decode(data).index.equals(value.index):
        raise TypeError("Arrow would change the value")
    return data, decode
