"""An evaluation as logs of Inspect (https://inspect.aisi.org.uk/eval-logs.html), one for each agent."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from nbagent.core.messages import new_id
from nbagent.errors import MissingDependencyError


def write_log(path: Path, log: Mapping[str, Any]) -> Path:
    """Write the data of a log as a file that Inspect reads."""
    try:
        from inspect_ai.log import EvalLog, write_eval_log
    except ImportError:
        raise MissingDependencyError("Inspect's logs need inspect_ai: pip install inspect-ai") from None
    path.parent.mkdir(parents=True, exist_ok=True)
    write_eval_log(EvalLog.model_validate(log), str(path))
    return path


def log_data(
    agent: str,
    model: str,
    rows: pd.DataFrame,
    scorers: Sequence[str],
    summary: Mapping[str, Any],
    prompt: str,
    expected: str | None,
) -> dict[str, Any]:
    """The log of an agent as JSON data for Inspect's `EvalLog`, of version 2. `summary` is its row of the summary."""
    model, now = model.replace(":", "/", 1), datetime.now(UTC).isoformat()
    samples = [_sample(row, model, scorers, prompt, expected) for row in _numbered(rows)]
    size, epochs = int((rows["repeat"] == 1).sum()), max([1, *rows["repeat"]])
    scores = [
        {"name": name, "scorer": name, "metrics": {"mean": {"name": "mean", "value": float(summary[name])}}}
        for name in scorers
        if pd.notna(summary[name])
    ]
    return {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": new_id("eval"),
            "run_id": new_id("run"),
            "task_id": new_id("task"),
            "created": now,
            "task": agent,
            "dataset": {"samples": size, "sample_ids": list(range(1, size + 1))},
            "model": model,
            "config": {"epochs": epochs},
            "metadata": {"prompt": prompt, "made_by": "nbagent"},
        },
        "results": {
            "total_samples": len(rows),
            "completed_samples": len(rows) - int(summary["failed"]),
            "scores": scores,
        },
        "stats": {"started_at": now, "completed_at": now},
        "samples": samples,
    }


def _numbered(rows: pd.DataFrame) -> list[dict[str, Any]]:
    places = rows.groupby("repeat").cumcount()
    records = ({str(name): value for name, value in row.items()} for row in rows.to_dict("records"))
    return [{**row, "": place + 1} for row, place in zip(records, places, strict=True)]


def _sample(
    row: dict[str, Any], model: str, scorers: Sequence[str], prompt: str, expected: str | None
) -> dict[str, Any]:
    known = {str(name): _as_json(value) for name, value in row.items() if not _is_missing(value) and name != ""}
    answer = str(known.get("answer", ""))
    error = known.get("row_error", known.get("error"))
    usage = {name: int(known[name]) for name in ("input_tokens", "output_tokens") if name in known}
    choice = {"message": {"role": "assistant", "content": answer}, "stop_reason": "stop"}
    return {
        "id": int(row[""]),
        "epoch": int(row["repeat"]),
        "input": _filled(prompt, known),
        "target": str(known.get(expected or "", "")),
        "output": {
            "model": model,
            "choices": [choice] if answer else [],
            "completion": answer,
            "usage": {**usage, "total_tokens": sum(usage.values())},
        },
        "scores": {name: {"value": known[name], "answer": answer} for name in scorers if name in known},
        "metadata": known,
        **({"error": {"message": str(error), "traceback": "", "traceback_ansi": ""}} if error else {}),
    }


def _as_json(value: Any) -> Any:
    """The value as JSON has it. What it lacks becomes text."""
    return json.loads(json.dumps(value, default=str), parse_constant=str)


def _filled(prompt: str, values: dict[str, Any]) -> str:
    """The question, as far as the values are known."""
    return re.sub(r"\{(\w+)\}", lambda found: str(values.get(found[1], found[0])), prompt)


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
