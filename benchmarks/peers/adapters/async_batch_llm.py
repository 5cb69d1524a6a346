"""async-batch-llm: process_prompts over OpenAIModel, chat completions."""

from async_batch_llm import OpenAIModel, OpenAIStrategy, process_prompts

from .base import Base


class Peer(Base):
    """It has no agent: only batches."""

    imports = "async_batch_llm, openai"

    # rows: begin
    def rows(self, model, prompts, concurrency):
        chat = OpenAIModel.from_api_key(model, "x", base_url=self.v1, api_surface="chat_completions")
        done = self.run(
            process_prompts(OpenAIStrategy(chat), list(prompts), concurrency=concurrency, preserve_order=True)
        )
        return [each.output if each.success else None for each in done.results]

    # rows: end

    def batch(self, model, prompts, concurrency):
        return self.rows(model, prompts, concurrency)
