"""The agent core: messages, events, one loop. It knows no vendor, no tool registry, no notebook.

Reading order: `messages`, `events`, `turn`, `loop`, then `nbagent.agent`, which wires it all.
"""
