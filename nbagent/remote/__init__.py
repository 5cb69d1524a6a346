"""An agent on a server, used as if it were here: `nbagent.connect`."""
