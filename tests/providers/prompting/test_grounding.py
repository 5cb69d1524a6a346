"""The meaning of a request: the tool, the values of its arguments, and the calls."""

import pytest
from support.small_tools import MEAN_BY, MEDIAN, TIMER, TOOLS, WEATHER, tool

from nbagent.providers.prompting.grounding import Filling, best_tool, follow_up
from nbagent.providers.prompting.reading import Reading
from nbagent.providers.prompting.schemas import parameter_schemas

NUMBER, TEXT, UNIT = {"type": "number"}, {"type": "string"}, {"type": "string", "enum": ["cm", "in", "ft"]}
CONVERT = tool("convert_length", "Convert a length.", value=NUMBER, unit=UNIT, to_unit=UNIT)
BOX = tool("box_volume", "Volume of a box.", width=NUMBER, height=NUMBER, depth=NUMBER)
INTEREST = tool("interest", "Interest of a loan.", amount=NUMBER, rate=NUMBER, years={"type": "integer"})
INTERESTS = [{"amount": 10, "rate": 0.01, "years": 2}, {"amount": 30, "rate": 0.04, "years": 5}]
SHOES = tool(
    "find_shoes", "Find shoes in the shop.", ["size"], size={"type": "integer"}, brand=TEXT, limit={"type": "integer"}
)
CALCULATE = tool("calculate", "Evaluate an expression.", expression=TEXT)
ADD = tool("add", "Add two numbers.", a=NUMBER, b=NUMBER)
DAY = tool("", "", day={"type": "string", "description": "The day of leaving, as DD/MM/YYYY."})
LEAVE = tool("leave", "Book a day of leave.", when=DAY["parameters"])
ROUTE = tool("route", "The route between two cities.", start=TEXT, end=TEXT)
NOTE = tool("add_note", "Add a note.", ["text"], text=TEXT, due_date=TEXT, pinned={"type": "boolean"})


def ground(request, asked):
    """The likeliest values of each call."""
    return [{name: values[0] for name, values in call.items()} for call in Filling(Reading(request), asked).calls]


def best(request, tools):
    found = best_tool(request, tools)
    return found and found[0]


def test_a_tool_needs_values_for_its_required_arguments():
    assert best("What does median mean?", TOOLS) is None
    assert best("median of 3 and 4", TOOLS) == MEDIAN
    assert best("Convert 3 cm in feet", [CONVERT]) is None  # not to cm
    assert best("weather?", TOOLS) is best("", TOOLS) is best("median of 3 and 4", []) is None


@pytest.mark.parametrize(
    ("request_text", "asked", "arguments"),
    [
        ("mean body mass per island", MEAN_BY, {"column": "body_mass_g", "group": "island"}),
        ("what is 3 cm in ft?", CONVERT, {"value": 3, "unit": "cm", "to_unit": "ft"}),
        ("a timer for twelve minutes", TIMER, {"minutes": 12}),
        ("a timer for 2 hours", TIMER, {"minutes": 120}),
        ("How is the weather in New York, NY?", WEATHER, {"city": "New York, NY"}),
        ("find shoes of size 43 by Acme", SHOES, {"size": 43, "brand": "Acme"}),
        ("leave on 5 may 2027", LEAVE, {"when": {"day": "05/05/2027"}}),
        ("find twelve shoes of size 43", SHOES, {"size": 43, "limit": 12}),
        ("volume of a box of height 2, depth 3 and width 4", BOX, {"width": 4, "height": 2, "depth": 3}),
        ("box volume of 2 by 3 by 4", BOX, {"width": 2, "height": 3, "depth": 4}),
        ("interest on $2,000 for 3 years at a rate of 5%", INTEREST, {"amount": 2000, "rate": 0.05, "years": 3}),
        ("the route from Oslo to Rome", ROUTE, {"start": "Oslo", "end": "Rome"}),
        ("What is (2 + 2) * 3?", CALCULATE, {"expression": "(2 + 2) * 3"}),
        ("add 2 + 3", ADD, {"a": 2, "b": 3}),
        ("add a note 'buy tea', pinned", NOTE, {"text": "buy tea", "pinned": True}),
        ("note 'tax' due on May 3, 2027, not pinned", NOTE, {"text": "tax", "due_date": "2027-05-03", "pinned": False}),
    ],
)
def test_each_argument_gets_its_value_from_the_request(request_text, asked, arguments):
    assert ground(request_text, asked) == [arguments]


@pytest.mark.parametrize(
    ("request_text", "asked", "calls"),
    [
        ("weather in 'Rome', 'Oslo' and 'Lima'", WEATHER, [{"city": "Rome"}, {"city": "Oslo"}, {"city": "Lima"}]),
        ("a timer of 3 minutes and one of 5 minutes", TIMER, [{"minutes": 3}, {"minutes": 5}]),
        ("interest on 10 at 1% for 2 years, then on 30 at 4% for 5 years", INTEREST, INTERESTS),
    ],
)
def test_several_values_for_one_argument_are_several_calls(request_text, asked, calls):
    assert ground(request_text, asked) == calls


@pytest.mark.parametrize(
    ("request_text", "asked", "earlier", "calls"),
    [
        ("And for Oslo?", WEATHER, {"city": "Rome"}, [{"city": "Oslo"}]),
        ("How about Oslo and New York?", WEATHER, {"city": "Rome"}, [{"city": "Oslo"}, {"city": "New York"}]),
        ("and by sex?", MEAN_BY, {"column": "c", "group": "island"}, [{"column": "c", "group": "sex"}]),
        ("And size 44?", SHOES, {"size": 43, "brand": "Acme"}, [{"size": 44, "brand": "Acme"}]),
        ("And to Lima?", ROUTE, {"start": "Oslo", "end": "Rome"}, []),  # either end
        ("What about the mayor of Oslo?", WEATHER, {"city": "Rome"}, []),
        ("ok, now for Oslo instead", WEATHER, {"city": "Rome"}, [{"city": "Oslo"}]),
        ("What about June?", tool("sales", "", month=TEXT), {"month": "2024-05"}, []),  # a word instead of digits
        ("And who is Anna?", WEATHER, {"city": "Rome"}, []),
        ("And thank you!", WEATHER, {"city": "Rome"}, []),
        ("Oslo", WEATHER, {"city": "Rome"}, []),
    ],
)
def test_a_follow_up_changes_the_earlier_call(request_text, asked, earlier, calls):
    found = follow_up(request_text, asked, earlier)
    assert [{name: values[0] for name, values in call.items()} for call in found] == calls


def test_references_and_other_forms_of_schemas_are_read():
    parameters = {
        "$defs": {"Unit": {"enum": ["celsius", "fahrenheit"], "type": "string"}},
        "type": "object",
        "properties": {
            "unit": {"anyOf": [{"$ref": "#/$defs/Unit"}, {"type": "null"}], "default": None},
            "days": {"type": ["integer", "null"], "default": None},
            "units": {"type": "array", "items": {"$ref": "#/properties/unit/anyOf/0"}},
            "anything": True,
            "pair": {"type": "array", "items": [True, {"$ref": "#/$defs/Unit"}]},
        },
        "required": ["unit"],
    }
    forecast = {"name": "forecast", "parameters": parameters}
    assert ground("forecast in celsius for 3 days", forecast) == [{"unit": "celsius", "days": 3}]
    assert parameter_schemas(forecast)["units"]["items"]["enum"] == ["celsius", "fahrenheit"]


def test_chinese_words_choose_a_tool():
    count = tool("count_orders", "订单数量：按城市统计。", city={"enum": ["北京", "上海"], "type": "string"})
    assert best("北京的订单数量是多少？", [WEATHER, count]) == count
