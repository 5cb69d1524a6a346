"""The agent as OpenAI's API: models, chat completions and responses, for the official SDKs and for chat front ends."""
