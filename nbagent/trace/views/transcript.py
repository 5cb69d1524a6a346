"""The conversation in a trace, message by message: HTML in notebooks, text everywhere else.

Message text never becomes raw HTML: everything goes through `core.render`, as answers in cells do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from textwrap import indent
from typing import NamedTuple

from nbagent.core.messages import origin_note, well_formed
from nbagent.core.render import markdown as render
from nbagent.trace.rows import Row
from nbagent.trace.scores import texts_by_target

#: The characters of a tool result in plain text.
RESULT_CHARS = 200


class _Section(NamedTuple):
    """A message. The first one of a run has the run's labels; the last one has its scores, and its end if it failed."""

    labels: str
    message: Row
    blocks: list[Row]
    end: str
    scores: str


class TraceTranscript:
    """The conversation in a trace. A notebook displays it as sanitised HTML; `print` shows plain text."""

    def __init__(self, rows: Mapping[str, Sequence[Row]]) -> None:
        self._messages = rows["messages"]
        self._runs = {row["run_id"]: row for row in rows["runs"]}
        self._calls = {row["call_id"]: row for row in rows["calls"]}
        self._tools = {row["tool_call_id"]: row for row in rows["tool_calls"]}
        self._scores = texts_by_target(rows["scores"])
        self._blocks: dict[str, list[Row]] = {}
        for block in rows["blocks"]:
            self._blocks.setdefault(block["message_id"], []).append(block)

    def __str__(self) -> str:
        return well_formed("\n".join(self._lines())) or "Nothing was said yet."

    __repr__ = __str__

    def html(self) -> str:
        """Return the conversation as safe HTML, without the style sheet that `render.output_html` adds."""
        return "".join(self._pieces()) or '<div class="nbagent-quiet">Nothing was said yet.</div>'

    def _repr_html_(self) -> str:
        return render.output_html(self.html())

    def _entries(self) -> Iterator[_Section]:
        """The messages, without tool results that are shown with their calls."""
        called = {
            block.get("tool_call_id") for own in self._blocks.values() for block in own if block["type"] == "tool_call"
        }
        entries = [(message, self._blocks.get(message["message_id"], [])) for message in self._messages]
        entries = [
            (message, blocks)
            for message, blocks in entries
            if message["role"] != "tool" or not any(block.get("tool_call_id") in called for block in blocks)
        ]
        runs = [message["run_id"] for message, _ in entries]
        first = {run_id: number for number, run_id in reversed(list(enumerate(runs)))}
        last = {run_id: number for number, run_id in enumerate(runs)}
        for number, (message, blocks) in enumerate(entries):
            run_id = message["run_id"]
            run = self._runs.get(run_id, {})
            is_first, is_last = number == first[run_id], number == last[run_id]
            scores = self._scores.get(run_id) if is_last else ""
            yield _Section(
                _labels(run) if is_first else "",
                message,
                blocks,
                _ending(run) if is_last else "",
                f"Scores: {scores}" if scores else "",
            )

    def _pieces(self) -> Iterator[str]:
        for labels, message, blocks, end, scores in self._entries():
            role = message["role"] or "unknown"
            yield render.note_html(labels)
            yield f'<div class="nbagent-quiet" style="margin-top: 10px">{render.escape(role)}</div>'
            yield from (self._block_html(role, block) for block in blocks)
            yield render.footer_html(self._footer(message))
            if end:
                yield f'<div class="nbagent-bad {render.NO_TEX}">{render.escape(render.shortened_with_note(end))}</div>'
            yield render.note_html(render.shortened_with_note(scores))

    def _block_html(self, role: str, block: Row) -> str:
        kind, text = block["type"], block.get("text") or ""
        if kind in ("text", "refusal"):
            return render.markdown_to_html(text) if role == "assistant" else render.verbatim_html(text)
        if kind == "thinking" and text:
            head = '<span class="nbagent-quiet">Thought</span>'
            return render.details_html(head, "", f"<pre>{render.escape(text)}</pre>")
        if kind == "tool_call":
            return self._call_html(block)
        if kind == "tool_result":
            return render.labelled_html(f"result of {block.get('name') or 'a tool'}", text)
        return render.note_html(_note(block))

    def _call_html(self, block: Row) -> str:
        tool = self._tools.get(block.get("tool_call_id") or "", {})
        title = f"<code>{render.escape(_signature(block, tool))}</code>"
        body = render.labelled_html("arguments", tool.get("args") or block.get("text") or "")
        if not tool:
            return render.details_html(title, "", body)
        failed = bool(tool.get("is_error"))
        body += render.labelled_html("error" if failed else "result", tool.get("result_text") or "")
        mark = "nbagent-bad" if failed else "nbagent-ok"
        return render.details_html(title, f'<span class="{mark}">{render.escape(self._outcome(tool))}</span>', body)

    def _lines(self) -> Iterator[str]:
        for labels, message, blocks, end, scores in self._entries():
            if labels:
                yield f"[{labels}]"
            yield from (self._block_text(message["role"] or "unknown", block) for block in blocks)
            if footer := self._footer(message):
                yield f"[{' · '.join(footer)}]"
            yield from filter(None, (end, scores))

    def _block_text(self, role: str, block: Row) -> str:
        kind, text = block["type"], block.get("text") or ""
        if kind in ("text", "refusal"):
            return f"{role}: {text}"
        if kind == "thinking" and text:
            return f"{role} (thinking): {text}"
        if kind == "tool_result":
            return indent(render.shortened_with_note(text, RESULT_CHARS), "  ")
        if kind != "tool_call":
            return f"[{_note(block)}]"
        tool = self._tools.get(block.get("tool_call_id") or "", {})
        head = f"▸ {_signature(block, tool)}  {self._outcome(tool) if tool else ''}".rstrip()
        result = tool.get("result_text")
        return f"{head}\n{indent(render.shortened_with_note(result, RESULT_CHARS), '  ')}" if result else head

    def _footer(self, message: Row) -> list[str]:
        """The model, tokens, cost, time, origin and scores of the request that led to this message."""
        call = self._calls.get(message.get("call_id") or "")
        if message["role"] != "assistant" or call is None:
            return []
        texts = [str(call.get("model") or "")]
        if call.get("input_tokens") is not None:
            texts += [f"{call['input_tokens']:,} in", f"{call['output_tokens'] or 0:,} out"]
        not_paid = " not paid: replayed" if call.get("replayed") else ""
        texts += [f"${call['cost_usd']:.4f}{not_paid}"] if call.get("cost_usd") else []
        texts += [render.format_duration(call["duration_s"])] if call.get("duration_s") is not None else []
        texts += [origin_note(call), self._scores.get(call["call_id"], "")]
        return list(filter(None, texts))

    def _outcome(self, tool: Row) -> str:
        """The outcome of a tool call, and its scores."""
        return " · ".join(filter(None, (_outcome(tool), self._scores.get(tool["tool_call_id"]))))


def _labels(run: Row) -> str:
    """The tags, user, session and metadata of a run."""
    tags = ", ".join(json.loads(run.get("tags") or "[]"))
    pairs = ", ".join(f"{name}={value}" for name, value in json.loads(run.get("metadata") or "{}").items())
    known = {"tags": tags, "user": run.get("user"), "session": run.get("session"), "metadata": pairs}
    return " · ".join(f"{name}: {value}" for name, value in known.items() if value)


def _ending(run: Row) -> str:
    """The end of a run that did not succeed."""
    if run.get("status") in (None, "ok", "running"):
        return ""
    reason = f": {run['status_reason']}" if run.get("status_reason") else ""
    error = f": {run['error_type']}: {run.get('error_message')}" if run.get("error_type") else reason
    return f"Ended: {run['status']}{error}"


def _signature(block: Row, tool: Row) -> str:
    return render.format_call(str(block.get("name") or "tool"), json.loads(tool.get("args") or "{}"))


def _outcome(tool: Row) -> str:
    took = f" {render.format_duration(tool['duration_s'])}" if tool.get("duration_s") is not None else ""
    if tool.get("is_error") is None:
        return "no result"
    if tool.get("approval") == "denied":
        return "denied"
    if tool.get("args_valid") is False:
        return "arguments invalid, sent back"
    return f"✗ error{took}" if tool["is_error"] else f"✓{took}"


def _note(block: Row) -> str:
    """A note for a block without text."""
    if block["type"] in ("image", "document"):
        return f"{block['type']}, {block.get('name') or block.get('media_type') or 'by its address'}"
    return "thinking, omitted by the provider" if block["type"] == "thinking" else f"{block['type']} by the provider"
