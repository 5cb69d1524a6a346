"""The agent core: messages, events and the loop. It knows no provider, no tool registry and no notebook.

Reading order: `messages`, `events`, `model_request`, `turn`, `loop`, `stream`; then `nbagent.agent`, which connects it
to providers and tools.
"""
