"""The agent in editors, and in Jupyter AI: `nbagent acp` speaks the Agent Client Protocol over stdin and stdout.

https://agentclientprotocol.com
"""

#: The remedy if its package is missing.
MISSING = "The Agent Client Protocol needs a package that is not installed: pip install 'nbagent[acp]'."
