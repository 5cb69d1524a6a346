"""`nbagent.functions` has the names of the functions layer."""

import nbagent
import nbagent.functions
from nbagent.functions import FunctionRegistry, ToolExecutor, agent_callable


def test_the_names_of_the_layer_are_those_of_the_package():
    assert (FunctionRegistry, ToolExecutor, agent_callable) == (
        nbagent.FunctionRegistry,
        nbagent.ToolExecutor,
        nbagent.agent_callable,
    )
    for name in nbagent.functions.__all__:
        assert getattr(nbagent.functions, name) is getattr(nbagent, name)
