"""`ChatPanel`: the conversation as a widget."""
