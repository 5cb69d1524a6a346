"""`/skills`: lists and calls the agents' executable skills. Other programs use `ToolManager(url, token=…)` for this."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated, Any

from fastapi import APIRouter, Path, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_jsonable_python
from starlette.responses import Response

from nbagent.agent.agent import Agent
from nbagent.core.content.images import content_as_text
from nbagent.core.json_text import json_text
from nbagent.core.messages import FunctionCall, new_id
from nbagent.functions.registry import FunctionDefinition
from nbagent.server.agent_host import AgentHost
from nbagent.server.approvals import deny
from nbagent.server.event_stream import while_connected
from nbagent.server.problems import not_found
from nbagent.server.routes.dependencies import Host
from nbagent.skills.wire import Skill, SkillResult, Skills

router = APIRouter(prefix="/skills", tags=["skills"])

SkillId = Annotated[str, Path(pattern=r"^[^/]{1,128}$")]
_SOURCE = "skill:"


class Invocation(BaseModel):
    """The arguments of a call."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"arguments": {"numbers": [1, 2, 3]}}]})

    arguments: dict[str, Any] = Field(default_factory=dict)


@router.get("")
async def skills(host: Host) -> Skills:
    """The executable skills of all agents."""
    return Skills(skills=[_shown(name, tool) for name, (_, tool) in (await _skills(host)).items()])


@router.get("/{skill_id}")
async def skill(host: Host, skill_id: SkillId) -> Skill:
    """One skill."""
    return _shown(skill_id, (await _skill(host, skill_id))[1])


@router.post("/{skill_id}/invoke", response_model=SkillResult)
async def invoke(request: Request, host: Host, skill_id: SkillId, body: Invocation) -> Response:
    """Call a skill. The response shows whether the call failed. A call that needs approval is denied."""
    agent, definition = await _skill(host, skill_id)
    executor = agent.tool_executor.with_options()
    executor.approver = executor.approver or deny
    trace_id, began = new_id("run"), perf_counter()
    call = FunctionCall(definition.name, body.arguments, new_id("call"))
    outcome = await while_connected(request.receive, executor.run(call))
    milliseconds = (perf_counter() - began) * 1_000
    text = content_as_text(outcome.content) if outcome.is_error else None
    data = outcome.value["data"] if isinstance(outcome.value, dict) and "data" in outcome.value else outcome.value
    result = SkillResult(not outcome.is_error, data, text, trace_id, milliseconds)
    return Response(json_text(to_jsonable_python(result)), media_type="application/json")


async def _skills(host: AgentHost) -> dict[str, tuple[Agent, FunctionDefinition]]:
    """The tools that are executable skills, by the skill's id, with the first agent that has each."""
    found: dict[str, tuple[Agent, FunctionDefinition]] = {}
    for agent in host.agents.values():
        await agent.toolsets.prepare()
        for tool in filter(None, map(agent.function_registry.get_function, agent.offered_tools())):
            if isinstance(tool.source, str) and tool.source.startswith(_SOURCE):
                found.setdefault(tool.source.removeprefix(_SOURCE), (agent, tool))
    return found


async def _skill(host: AgentHost, skill_id: str) -> tuple[Agent, FunctionDefinition]:
    found = (await _skills(host)).get(skill_id)
    if found is None:
        raise not_found("executable skill with that id")
    return found


def _shown(skill_id: str, definition: FunctionDefinition) -> Skill:
    about = definition.to_dict()
    return Skill(id=skill_id, description=about["description"], parameters=about["parameters"])
