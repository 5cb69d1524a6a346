"""nbagent's agent over the openai SDK's transport (chat completions)."""

from nbagent import create_provider

from . import nbagent_httpx


class Peer(nbagent_httpx.Peer):
    """See `nbagent_httpx`."""

    def provider(self, model, streaming):
        return create_provider("openai", api="chat", api_key="x", model=model, base_url=self.v1, streaming=streaming)
