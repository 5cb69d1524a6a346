"""langchain without an agent: ChatOpenAI.stream and ChatOpenAI.abatch."""

from .base import PROMPT, Stream
from .langchain import Peer as Agent


class Peer(Agent):
    imports = "langchain_openai"

    def stream_text(self, model):
        got = Stream()
        for message in self.kept(model, lambda: self.model(model)).stream(PROMPT):
            got.add(message.text)
        return got

    def tool_loop(self, model):
        raise NotImplementedError

    def parallel_tools(self, model, sleeper, kind):
        raise NotImplementedError

    def batch(self, model, prompts, concurrency):
        chat = self.kept(model, lambda: self.model(model))
        replies = self.run(chat.abatch(list(prompts), config={"max_concurrency": concurrency}))
        return [r.text for r in replies]
