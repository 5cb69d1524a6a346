"""Shows a run's result in a notebook: folded tool calls, the answer with its images and sources, and a footer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from nbagent.core.citations import numbered
from nbagent.core.content.images import image_note
from nbagent.core.messages import origin_note
from nbagent.core.render import markdown as render
from nbagent.core.render import sources


def result_html(result: Mapping[str, Any]) -> str:
    """Return an `AgentResult` as safe HTML, including the style sheet."""
    return render.output_html("".join(_pieces(result)))


def _pieces(result: Mapping[str, Any]) -> Iterator[str]:
    yield from map(_call_html, result["function_calls"])
    text, citations = result["content"], result["citations"]
    numbers = numbered(citations)
    yield render.markdown_to_html(sources.with_marks(text, sources.mark_positions(text, citations, numbers)))
    yield sources.sources_html(citations, numbers)
    for image in result["images"]:
        yield render.image_html(image.media_type, image.to_base64(), image_note(image.to_part()))
    yield render.note_html(result["status_reason"] or "")
    usage, cost = result["usage"], result["cost"]
    footer = [f"{usage.input_tokens:,} in", f"{usage.output_tokens:,} out"] if usage.total_tokens else []
    footer += [f"${cost:.4f}"] if cost else []
    yield render.footer_html([*footer, *filter(None, [origin_note(result["metadata"])])])


def _call_html(call: Mapping[str, Any]) -> str:
    arguments, failed = call.get("arguments") or {}, bool(call.get("is_error"))
    title = f"<code>{render.escape(render.format_call(str(call.get('name')), arguments))}</code>"
    body = render.labelled_html("arguments", render.readable_json(arguments))
    body += render.labelled_html("error" if failed else "result", str(call.get("result") or ""))
    state = '<span class="nbagent-bad">✗ error</span>' if failed else '<span class="nbagent-ok">✓</span>'
    return render.details_html(title, state, body)
