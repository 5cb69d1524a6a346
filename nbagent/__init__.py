"""nbagent: agents at home in Jupyter.

>>> %load_ext nbagent                                                       # doctest: +SKIP
>>> import nbagent; agent = nbagent.Agent("local", tools=[my_function])     # doctest: +SKIP

Names are loaded at first use, so `import nbagent` is fast.
"""

from __future__ import annotations

from importlib import import_module

from nbagent.version import VERSION

TYPE_CHECKING = False  # type checkers know this name, and importing `typing` would take longer than this module
if TYPE_CHECKING:
    from nbagent.agent.agent import Agent as Agent
    from nbagent.batch.checkpoint import read_checkpoint as read_checkpoint
    from nbagent.config import AgentConfig as AgentConfig
    from nbagent.core.budget import Budget as Budget
    from nbagent.core.history.history import ContextManager as ContextManager
    from nbagent.core.limits import Limits as Limits
    from nbagent.core.messages import FunctionCall as FunctionCall
    from nbagent.core.messages import LLMMessage as LLMMessage
    from nbagent.core.messages import LLMResponse as LLMResponse
    from nbagent.core.messages import Usage as Usage
    from nbagent.core.request_options import RequestOptions as RequestOptions
    from nbagent.core.results import AgentResult as AgentResult
    from nbagent.core.run_context import RunContext as RunContext
    from nbagent.core.stream import StreamingHandler as StreamingHandler
    from nbagent.evaluation.evaluate import compare as compare
    from nbagent.evaluation.evaluate import compare_sync as compare_sync
    from nbagent.evaluation.evaluate import evaluate as evaluate
    from nbagent.evaluation.evaluate import evaluate_sync as evaluate_sync
    from nbagent.evaluation.result import Evaluation as Evaluation
    from nbagent.evaluation.scorers import exact as exact
    from nbagent.evaluation.scorers import judge as judge
    from nbagent.evaluation.scorers import matches as matches
    from nbagent.functions.allowances import Allow as Allow
    from nbagent.functions.approval import outside as outside
    from nbagent.functions.discovery import agent_callable as agent_callable
    from nbagent.functions.discovery import auto_discover_and_register as auto_discover_and_register
    from nbagent.functions.discovery import register_class_methods as register_class_methods
    from nbagent.functions.discovery import register_instance_methods as register_instance_methods
    from nbagent.functions.discovery import register_module_functions as register_module_functions
    from nbagent.functions.executor import ToolExecutor as ToolExecutor
    from nbagent.functions.foreign import from_langchain as from_langchain
    from nbagent.functions.foreign import from_openai_agents as from_openai_agents
    from nbagent.functions.foreign import from_pydantic_ai as from_pydantic_ai
    from nbagent.functions.live import live as live
    from nbagent.functions.live import tool as tool
    from nbagent.functions.provider_tools import code_execution as code_execution
    from nbagent.functions.provider_tools import image_generation as image_generation
    from nbagent.functions.provider_tools import remote_mcp as remote_mcp
    from nbagent.functions.provider_tools import tool_search as tool_search
    from nbagent.functions.provider_tools import web_fetch as web_fetch
    from nbagent.functions.provider_tools import web_search as web_search
    from nbagent.functions.registry import FunctionDefinition as FunctionDefinition
    from nbagent.functions.registry import FunctionRegistry as FunctionRegistry
    from nbagent.mcp.client.server import MCPServer as MCPServer
    from nbagent.memory.memory import Memory as Memory
    from nbagent.notebook.analyst.verify import verify_notebook as verify_notebook
    from nbagent.notebook.analyst.verify import verify_notebook_sync as verify_notebook_sync
    from nbagent.notebook.analyst.write import fix_notebook as fix_notebook
    from nbagent.notebook.analyst.write import fix_notebook_sync as fix_notebook_sync
    from nbagent.notebook.analyst.write import write_notebook as write_notebook
    from nbagent.notebook.analyst.write import write_notebook_sync as write_notebook_sync
    from nbagent.notebook.explorer import TraceExplorer as TraceExplorer
    from nbagent.notebook.panel.panel import ChatPanel as ChatPanel
    from nbagent.providers import create_provider as create_provider
    from nbagent.providers import register_provider as register_provider
    from nbagent.providers.base import LLMProvider as LLMProvider
    from nbagent.providers.replay.session import ReplayProvider as ReplayProvider
    from nbagent.providers.replay.session import record as record
    from nbagent.providers.replay.session import replay as replay
    from nbagent.providers.routing.candidates import Candidates as Candidates
    from nbagent.providers.scripted import ScriptedProvider as ScriptedProvider
    from nbagent.remote import connect as connect
    from nbagent.skills.builtin.rss.news import RSS_TOOLS_DEFINITIONS as RSS_TOOLS_DEFINITIONS
    from nbagent.skills.builtin.rss.news import fetch_rss_news as fetch_rss_news
    from nbagent.skills.builtin.rss.news import filter_rss_news as filter_rss_news
    from nbagent.skills.builtin.rss.news import search_rss_by_keywords as search_rss_by_keywords
    from nbagent.skills.host import SkillHost as SkillHost
    from nbagent.skills.manager import ToolManager as ToolManager
    from nbagent.skills.manifest import SkillManifest as SkillManifest
    from nbagent.skills.wire import SkillResult as SkillResult
    from nbagent.teams.team import Team as Team
    from nbagent.trace.trace import Trace as Trace

__version__ = VERSION

_WHERE = {
    "Agent": "agent.agent",
    "AgentConfig": "config",
    "AgentResult": "core.results",
    "Allow": "functions.allowances",
    "Budget": "core.budget",
    "Candidates": "providers.routing.candidates",
    "ChatPanel": "notebook.panel.panel",
    "ContextManager": "core.history.history",
    "Evaluation": "evaluation.result",
    "FunctionCall": "core.messages",
    "FunctionDefinition": "functions.registry",
    "FunctionRegistry": "functions.registry",
    "LLMMessage": "core.messages",
    "LLMProvider": "providers.base",
    "LLMResponse": "core.messages",
    "Limits": "core.limits",
    "MCPServer": "mcp.client.server",
    "Memory": "memory.memory",
    "RSS_TOOLS_DEFINITIONS": "skills.builtin.rss.news",
    "ReplayProvider": "providers.replay.session",
    "RequestOptions": "core.request_options",
    "RunContext": "core.run_context",
    "ScriptedProvider": "providers.scripted",
    "SkillHost": "skills.host",
    "SkillManifest": "skills.manifest",
    "SkillResult": "skills.wire",
    "StreamingHandler": "core.stream",
    "Team": "teams.team",
    "ToolExecutor": "functions.executor",
    "ToolManager": "skills.manager",
    "Trace": "trace.trace",
    "TraceExplorer": "notebook.explorer",
    "Usage": "core.messages",
    "agent_callable": "functions.discovery",
    "auto_discover_and_register": "functions.discovery",
    "code_execution": "functions.provider_tools",
    "compare": "evaluation.evaluate",
    "compare_sync": "evaluation.evaluate",
    "connect": "remote",
    "create_provider": "providers",
    "evaluate": "evaluation.evaluate",
    "evaluate_sync": "evaluation.evaluate",
    "exact": "evaluation.scorers",
    "fetch_rss_news": "skills.builtin.rss.news",
    "filter_rss_news": "skills.builtin.rss.news",
    "fix_notebook": "notebook.analyst.write",
    "fix_notebook_sync": "notebook.analyst.write",
    "from_langchain": "functions.foreign",
    "from_openai_agents": "functions.foreign",
    "from_pydantic_ai": "functions.foreign",
    "image_generation": "functions.provider_tools",
    "judge": "evaluation.scorers",
    "live": "functions.live",
    "matches": "evaluation.scorers",
    "outside": "functions.approval",
    "read_checkpoint": "batch.checkpoint",
    "record": "providers.replay.session",
    "register_class_methods": "functions.discovery",
    "register_instance_methods": "functions.discovery",
    "register_module_functions": "functions.discovery",
    "register_provider": "providers",
    "remote_mcp": "functions.provider_tools",
    "replay": "providers.replay.session",
    "search_rss_by_keywords": "skills.builtin.rss.news",
    "tool": "functions.live",
    "tool_search": "functions.provider_tools",
    "verify_notebook": "notebook.analyst.verify",
    "verify_notebook_sync": "notebook.analyst.verify",
    "web_fetch": "functions.provider_tools",
    "web_search": "functions.provider_tools",
    "write_notebook": "notebook.analyst.write",
    "write_notebook_sync": "notebook.analyst.write",
}

__all__ = list(_WHERE)


if not TYPE_CHECKING:  # type checkers would accept every name, even a mistyped one

    def __getattr__(name: str) -> object:
        if name not in _WHERE:
            raise AttributeError(f"module 'nbagent' has no attribute {name!r}")
        value = getattr(import_module(f"nbagent.{_WHERE[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def load_ipython_extension(shell: object) -> None:
    """Load the extension, as `%load_ext nbagent` does."""
    from IPython import __version__ as ipython
    from IPython.core.error import UsageError

    try:
        from nbagent.notebook.extension import load
    except ImportError as error:
        if not (error.name or "").startswith("IPython"):
            raise
        fix = "Run %pip install -U ipython ipykernel, then restart the kernel."
        raise UsageError(f"nbagent can't use IPython {ipython}, which this kernel runs. {fix}") from error

    load(shell)


def unload_ipython_extension(shell: object) -> None:
    """Unload the extension, as `%unload_ext nbagent` does."""
    from nbagent.notebook.extension import unload

    unload(shell)
