"""What a request can mean: the tool, the values of its arguments, and the words, numbers and quotations it holds."""

from support.small_tools import MEAN_BY, MEDIAN, TIMER, TOOLS, WEATHER

from nbagent.providers.prompting.narrowing import choose_tool, narrow


def test_a_tool_needs_values_for_its_required_arguments():
    assert choose_tool("What does median mean?", TOOLS) is None
    assert choose_tool("median of 3 and 4", TOOLS) is MEDIAN
    assert choose_tool("weather?", TOOLS) is None
    assert choose_tool("", TOOLS) is None
    assert choose_tool("median of 3 and 4", []) is None


def test_narrowing_keeps_the_values_that_the_request_names():
    schema = narrow("mean body mass per island", MEAN_BY)
    assert schema["properties"] == {"column": {"enum": ["body_mass_g"]}, "group": {"enum": ["island"]}}
    assert narrow("timer of 5 minutes", TIMER)["properties"] == {"minutes": {"enum": [5]}}
    assert narrow("timer of 05 minutes", TIMER)["properties"] == {"minutes": {"enum": [5]}}
    assert narrow("median of 1, 2 and 3", MEDIAN)["properties"] == {"numbers": {"enum": [[1, 2, 3]]}}
    assert "New York" in narrow("weather in New York today", WEATHER)["properties"]["city"]["enum"]


def test_narrowing_reads_references_and_optional_types():
    parameters = {
        "$defs": {"Unit": {"enum": ["celsius", "fahrenheit"], "type": "string"}},
        "type": "object",
        "properties": {
            "unit": {"anyOf": [{"$ref": "#/$defs/Unit"}, {"type": "null"}], "default": None},
            "days": {"type": ["integer", "null"], "default": None},
            "units": {"type": "array", "items": {"$ref": "#/$defs/Unit"}},
        },
        "required": ["units"],
    }
    schema = narrow("forecast in celsius for 3 days", {"name": "forecast", "description": "", "parameters": parameters})
    assert schema["properties"]["unit"] == {"enum": ["celsius"]}
    assert schema["properties"]["days"] == {"enum": [3]}
    assert schema["properties"]["units"] == {"enum": [["celsius"]]}
