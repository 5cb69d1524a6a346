"""`%%agent --map df`: sends the cell's text as a prompt for each row, and returns a DataFrame with the answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from nbagent.agent.agent import Agent
from nbagent.core.cells import is_watched
from nbagent.core.limits import Limits
from nbagent.errors import ConfigurationError, NbagentError
from nbagent.notebook.magics.cell_errors import readable
from nbagent.notebook.magics.options import OF_REQUESTS, of_requests, value_of

if TYPE_CHECKING:
    from argparse import ArgumentParser

    from pandas import DataFrame

    from nbagent.batch.preview import MapPreview

#: The options allowed with `--map`: the options of `map_cell`, and `--no-tools`, since rows have no tools anyway.
OF_ROWS = {
    *("name", "map", "shape", "model", "system", "output", "max_iterations", "dry_run", "no_tools"),
    *OF_REQUESTS,
}


def check_map_options(given: Any, parser: ArgumentParser) -> None:
    """Raise UsageError for options that can't be used with `--map`."""
    if given.map is None:
        return
    for action in parser._actions:
        is_given = action.option_strings and getattr(given, action.dest, action.default) != action.default
        if is_given and action.dest not in OF_ROWS:
            option = max(action.option_strings, key=len)
            raise UsageError(f"%%agent: {option} can't be used with --map: each row is a separate prompt")


async def map_cell(shell: Any, given: Any, prompt: str, agent: Agent) -> DataFrame | MapPreview:
    """Send a prompt for each row of the data that `given.map` names. Names in braces in the prompt refer to columns."""
    data = value_of(shell, "--map", given.map)
    output = None if given.shape is None else value_of(shell, "--shape", given.shape)
    before, bound = (agent.provider_or_spec, agent.system_prompt), shell.user_ns.get(given.name)
    try:
        if given.dry_run:
            agent = agent.fork()
        if given.model:
            agent.provider = given.model
        if given.system is not None:
            agent.system_prompt = given.system
        if given.dry_run:
            preview: MapPreview = await agent.map(data, prompt, output, preview=True)
            return preview
        shell.user_ns[given.name] = agent
        frame: DataFrame = await agent.map(
            data,
            prompt,
            output,
            limits=None if given.max_iterations is None else Limits(max_iterations=given.max_iterations),
            progress=is_watched(shell),
            **of_requests(given),
        )
    except NbagentError as error:
        if isinstance(error, ConfigurationError):  # a wrong cell changes neither the agent nor its name
            agent.provider, agent.system_prompt = before
            if bound is not None:
                shell.user_ns[given.name] = bound
            elif not agent.unfinished:  # otherwise only the new agent has the answers so far
                shell.user_ns.pop(given.name, None)
        raise readable(error) from None
    if given.output:
        shell.user_ns[given.output] = frame
    return frame
