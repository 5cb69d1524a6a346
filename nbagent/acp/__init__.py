"""Offers an agent to editors and Jupyter AI: `nbagent acp` speaks the Agent Client Protocol over stdin and stdout.

https://agentclientprotocol.com
"""
