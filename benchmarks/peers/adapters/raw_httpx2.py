"""raw_httpx on httpx2 (what the openai 3.x and anthropic 2.x SDKs use)."""

from . import raw_httpx


class Peer(raw_httpx.Peer):
    imports = "httpx2"
    library = "httpx2"
