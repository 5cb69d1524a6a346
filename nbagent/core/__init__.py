"""The agent core: messages, events and the loop. It does not depend on providers, tool registries or notebooks.

Reading order: `messages`, `events`, `model_request`, `turn`, `loop` and `stream`, then `nbagent.agent`, which connects
the core to providers and tools.
"""
