"""Serves the agent through OpenAI-compatible APIs, for SDKs and chat front ends: models, chat completions and
responses.
"""
