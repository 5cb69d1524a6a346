"""`GET /`: a page to try the agent in a browser; and what it shows, rendered as safe HTML."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import HTMLResponse

from nbagent.core.render.arguments import arguments_text
from nbagent.core.render.markdown import escape, format_call, markdown_to_html, readable_name

router = APIRouter(include_in_schema=False)

PAGE = Path(__file__).parents[1] / "page" / "index.html"
#: How Markdown aligns the columns of tables: as a class, since the page allows no style in HTML.
_ALIGNED = re.compile(r'style="text-align:\s?(right|center|left);?"')


@router.get("/")
async def page() -> HTMLResponse:
    """The page. It is the same for everybody and holds no data; it asks for the token."""
    return HTMLResponse(_page(), headers=_headers())


class PageItem(BaseModel):
    """Something that a model, a tool or a person wrote."""

    kind: Literal["markdown", "plain", "name", "call", "arguments"]
    text: str = ""
    name: str = ""
    arguments: dict[str, Any] = {}


class Items(BaseModel):
    """What the page wants to show."""

    items: Annotated[list[PageItem], Field(max_length=200)]


@router.post("/page/render")
def render(body: Items) -> dict[str, list[str]]:
    """The items as safe HTML, as a notebook shows them: no script, no style, no request, no hidden character."""
    return {"html": [_html(item) for item in body.items]}


def _html(item: PageItem) -> str:
    match item.kind:
        case "markdown":
            return _ALIGNED.sub(r'class="\1"', markdown_to_html(item.text))
        case "name":
            return escape(readable_name(item.name))
        case "call":
            return escape(format_call(item.name, item.arguments))
        case "arguments":
            return escape(arguments_text(item.arguments))
        case "plain":
            return escape(item.text)


@cache
def _page() -> str:
    return PAGE.read_text("utf-8")


@cache
def _headers() -> dict[str, str]:
    """Only the page's own script and style run, and it speaks with this server alone."""
    policy = {
        "default-src": "'none'",
        "script-src": _hash_of("script"),
        "style-src": _hash_of("style"),
        "img-src": "data:",
        "connect-src": "'self'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "frame-ancestors": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "nbagent",
    }
    return {
        "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in policy.items()),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }


def _hash_of(tag: str) -> str:
    """The page's script or style, as its policy names it."""
    (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", _page(), re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
