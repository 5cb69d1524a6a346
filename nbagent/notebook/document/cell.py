"""One cell of a notebook, in nbformat's terms."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any, Literal
from uuid import uuid4

Kind = Literal["code", "markdown", "raw"]

#: Our key in the metadata of a cell or a notebook.
OURS = "nbagent"


@dataclass(frozen=True, slots=True)
class NotebookCell:
    """A cell: its source, and the outputs of its last run.

    `outputs` are output dicts of nbformat 4 (https://nbformat.readthedocs.io/en/latest/format_description.html), with
    texts as one string. Only code cells have outputs and an `execution_count`.

    >>> NotebookCell("code", "1 + 1", id="a1").to_nbformat()["outputs"]
    []
    """

    kind: Kind
    source: str
    id: str = field(default_factory=lambda: uuid4().hex[:8])
    outputs: list[dict[str, Any]] = field(default_factory=list)
    execution_count: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    attachments: dict[str, Any] = field(default_factory=dict)

    @property
    def run_id(self) -> str | None:
        """The id of the run that last added or edited this cell; None if the user did."""
        run_id: str | None = self.metadata.get(OURS, {}).get("run")
        return run_id

    @property
    def error(self) -> dict[str, Any] | None:
        """The cell's error output; None if there is none."""
        return next((output for output in self.outputs if output["output_type"] == "error"), None)

    @property
    def outputs_hash(self) -> str:
        """A hash of the cell's outputs."""
        return digest(json.dumps(self.outputs, sort_keys=True))

    def marked(self, run_id: str | None) -> NotebookCell:
        """A copy of the cell that is marked with a run's id, or that has no mark if `run_id` is None."""
        rest = {key: value for key, value in self.metadata.items() if key != OURS}
        return replace(self, metadata={**rest, OURS: {"run": run_id}} if run_id is not None else rest)

    def to_nbformat(self) -> dict[str, Any]:
        """Convert the cell to a cell of a notebook's JSON."""
        data: dict[str, Any] = {"cell_type": self.kind, "id": self.id, "metadata": self.metadata, "source": self.source}
        if self.kind == "code":
            data |= {"execution_count": self.execution_count, "outputs": self.outputs}
        elif self.attachments:
            data["attachments"] = self.attachments
        return data

    @classmethod
    def from_nbformat(cls, data: dict[str, Any]) -> NotebookCell:
        """Create a cell from a notebook's JSON, which must contain the cell's id."""
        return cls(
            data["cell_type"],
            data["source"],
            data["id"],
            data.get("outputs", []),
            data.get("execution_count"),
            data.get("metadata", {}),
            data.get("attachments", {}),
        )


def digest(data: str) -> str:
    """A short hash that identifies text."""
    return sha256(data.encode(errors="surrogatepass")).hexdigest()[:16]
