"""From the body of either API to what the server asks of the agent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbagent.server.agent_host import AgentHost
from nbagent.server.hosted_run import RunRequest
from nbagent.server.routes.openai.body import LastQuestion, RequestBody
from nbagent.server.routes.openai.models import model_choice
from nbagent.server.routes.openai.output_format import output_options


async def run_request(
    host: AgentHost,
    body: RequestBody,
    asked: LastQuestion,
    wanted: Mapping[str, Any] | None,
    param: str,
    **more: Any,
) -> RunRequest:
    """The request for a run. `param` is the field that says in which form the answer is wanted.

    Raises `RefusedError` for what the agent can't do, and for a model that is not there.
    """
    model = model_choice(host, body.model)
    form, told = await output_options(wanted, host.provider_for(None, model), param)
    options = body.options()
    if form:
        options["extra_body"] = {**options.get("extra_body", {}), **form}
    return RunRequest(
        message=asked.question,
        instructions="\n\n".join(filter(None, (asked.instructions, told))),
        model=model,
        options=options,
        **more,
    )
