"""What a request can mean: the tool, the values of its arguments, and the words, numbers and quotations it holds."""

from support.small_tools import MEAN_BY, MEDIAN, TIMER, TOOLS, WEATHER

from nbagent.providers.prompting.narrowing import choose_tool, narrow, number_lists, quotations, spans, words


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


def test_reading_a_request():
    assert words("the bill_lengths of bodyMass") == ["bill", "length", "body", "mass"]
    assert number_lists("of [1, 2] with 3 bins, -4.5 and 6") == [[1, 2], [3], [-4.5, 6]]
    assert quotations("it's 'a b' and \"c\" and “d”") == ["a b", "c", "d"]
    assert spans("weather in New York") == [
        "weather",
        "weather in New",
        "weather in New York",
        "New",
        "New York",
        "York",
    ]


def test_numbers_with_leading_zeros_are_read():
    assert choose_tool("Set a timer for 05 minutes", TOOLS) is TIMER
    assert narrow("Set a timer for 05 minutes", TIMER)["properties"] == {"minutes": {"enum": [5]}}
    assert narrow("median of 007 and 08.5", MEDIAN)["properties"] == {"numbers": {"enum": [[7, 8.5]]}}
