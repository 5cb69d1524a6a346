"""The agent behind OpenAI-compatible APIs: models, chat completions and responses, for SDKs and chat front ends."""
