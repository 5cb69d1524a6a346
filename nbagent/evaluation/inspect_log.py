"""An evaluation as logs of Inspect (https://inspect.aisi.org.uk/eval-logs.html), one for each agent."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from nbagent.core.messages import new_id
from nbagent.errors import MissingDependencyError


class Evaluated(Protocol):
    """What a log needs of an `Evaluation`."""

    @property
    def frame(self) -> pd.DataFrame:
        """See `Evaluation`."""
        ...

    @property
    def scorers(self) -> tuple[str, ...]:
        """See `Evaluation`."""
        ...

    @property
    def models(self) -> Mapping[str, str]:
        """See `Evaluation`."""
        ...

    @property
    def prompt(self) -> str:
        """What the agents were asked."""
        ...

    @property
    def expected(self) -> str | None:
        """The column with the right answers, if there is one."""
        ...

    def summary(self) -> pd.DataFrame:
        """See `Evaluation.summary`."""
        ...


def write_logs(evaluation: Evaluated, folder: Path) -> list[Path]:
    """See `Evaluation.to_inspect`."""
    try:
        from inspect_ai.log import EvalLog, write_eval_log
    except ImportError:
        raise MissingDependencyError("Inspect's logs need inspect_ai: pip install inspect-ai") from None
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, agent in enumerate(evaluation.models):
        path = folder / f"{number}_{re.sub(r'[^a-zA-Z0-9-]+', '-', agent)}.eval"
        write_eval_log(EvalLog.model_validate(log_data(evaluation, agent)), str(path))
        paths.append(path)
    return paths


def log_data(evaluation: Evaluated, agent: str) -> dict[str, Any]:
    """The log of an agent as JSON data for Inspect's `EvalLog`, of version 2."""
    rows = evaluation.frame[evaluation.frame["agent"] == agent]
    model, now = evaluation.models[agent].replace(":", "/", 1), datetime.now(UTC).isoformat()
    samples = [_sample(evaluation, row, model) for row in _numbered(rows)]
    size, epochs = int((rows["repeat"] == 1).sum()), max([1, *rows["repeat"]])
    told: Mapping[str, Any] = {str(name): value for name, value in evaluation.summary().loc[agent].items()}
    scores = [
        {"name": name, "scorer": name, "metrics": {"mean": {"name": "mean", "value": float(told[name])}}}
        for name in evaluation.scorers
        if pd.notna(told[name])
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
            "metadata": {"prompt": evaluation.prompt, "made_by": "nbagent"},
        },
        "results": {
            "total_samples": len(rows),
            "completed_samples": len(rows) - int(told["failed"]),
            "scores": scores,
        },
        "stats": {"started_at": now, "completed_at": now},
        "samples": samples,
    }


def _numbered(rows: pd.DataFrame) -> list[dict[str, Any]]:
    places = rows.groupby("repeat").cumcount()
    records = ({str(name): value for name, value in row.items()} for row in rows.to_dict("records"))
    return [{**row, "": place + 1} for row, place in zip(records, places, strict=True)]


def _sample(evaluation: Evaluated, row: dict[str, Any], model: str) -> dict[str, Any]:
    known = {str(name): _as_json(value) for name, value in row.items() if not _is_missing(value) and name != ""}
    answer = str(known.get("answer", ""))
    error = known.get("row_error", known.get("error"))
    usage = {name: int(known[name]) for name in ("input_tokens", "output_tokens") if name in known}
    choice = {"message": {"role": "assistant", "content": answer}, "stop_reason": "stop"}
    return {
        "id": int(row[""]),
        "epoch": int(row["repeat"]),
        "input": _filled(evaluation.prompt, known),
        "target": str(known.get(evaluation.expected or "", "")),
        "output": {
            "model": model,
            "choices": [choice] if answer else [],
            "completion": answer,
            "usage": {**usage, "total_tokens": sum(usage.values())},
        },
        "scores": {name: {"value": known[name], "answer": answer} for name in evaluation.scorers if name in known},
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
