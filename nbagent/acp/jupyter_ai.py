"""The nbagent persona for Jupyter AI 3, which finds personas through the entry point `jupyter_ai.personas`.

The persona starts `nbagent acp` with the agent that `NBAGENT_AGENT` names.
"""

import sys
from pathlib import Path
from typing import Any

from jupyter_ai_acp_client.base_acp_persona import BaseAcpPersona
from jupyter_ai_persona_manager import PersonaDefaults


class NbagentPersona(BaseAcpPersona):  # type: ignore[misc]  # Jupyter AI is not installed where types are checked
    """The nbagent persona in Jupyter AI chats."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, executable=[sys.executable, "-m", "nbagent.cli", "acp"], **options)

    @property
    def defaults(self) -> PersonaDefaults:
        """The name, description and icon that Jupyter AI shows for the persona."""
        return PersonaDefaults(
            name="nbagent",
            description="Your own agent, with its tools. Name it with NBAGENT_AGENT=app.py:agent.",
            avatar_path=str(Path(__file__).with_name("nbagent.svg")),
            system_prompt="set by the agent",
        )
