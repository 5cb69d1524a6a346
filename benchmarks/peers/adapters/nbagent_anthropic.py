"""nbagent's agent over the anthropic SDK's transport (messages)."""

from nbagent import create_provider

from . import nbagent_httpx


class Peer(nbagent_httpx.Peer):
    """See `nbagent_httpx`."""

    def provider(self, model, streaming):
        return create_provider("claude", api_key="x", model=model, base_url=self.url, streaming=streaming)
