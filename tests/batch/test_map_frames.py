"""`agent.map(output=Model)`: the fields of the answers as typed columns."""

import enum
from datetime import datetime
from typing import Literal

import pandas as pd
import pytest
from pydantic import BaseModel, Field

from nbagent import Agent, ScriptedProvider
from nbagent.errors import ConfigurationError


class Mood(enum.Enum):
    GOOD = "good"
    BAD = "bad"


class Item(BaseModel):
    name: str
    price: float | None = None


class Address(BaseModel):
    city: str
    code: int = Field(default=0, alias="postCode")


class Order(BaseModel):
    status: Literal["open", "sent"]
    mood: Mood
    paid: bool
    when: datetime | None = None
    address: Address | None = None
    items: list[Item] = []


FULL = """{"status": "sent", "mood": "good", "paid": true, "when": "2026-01-02T03:04:05Z",
"address": {"city": "Bonn", "postCode": 53111}, "items": [{"name": "pen", "price": 2}, {"name": "ink"}]}"""
BARE = '{"status": "open", "mood": "bad", "paid": false, "items": []}'
KINDS = {
    "status": "str", "mood": "str", "paid": "boolean", "when": "datetime64[us, UTC]", "address.city": "str",
    "address.code": "Int64", "items": "object", "row_status": "str", "error": "str", "input_tokens": "Int64",
    "output_tokens": "Int64", "cost": "Float64", "seconds": "Float64", "run_id": "str",
}  # fmt: skip


@pytest.fixture
def agent():
    return Agent(ScriptedProvider(lambda messages, *_: FULL if messages[-1].text.startswith("a") else BARE))


def kinds(frame):
    return {name: str(kind).replace("string", "str") for name, kind in frame.dtypes.items()}


async def test_fields_are_columns_also_of_no_rows(agent):
    answers = await agent.map(pd.Series(["a", "b"], index=["x", "x"]), output=Order)
    empty = await agent.map(pd.Series([], dtype=str), output=Order)
    assert kinds(answers) == kinds(empty) == KINDS
    assert list(answers.index) == ["x", "x"]
    assert list(answers["mood"]) == ["good", "bad"]
    assert answers["address.code"].iloc[0] == 53111
    assert answers["address.city"].isna().tolist() == [False, True]
    assert answers["items"].iloc[0] == [{"name": "pen", "price": 2.0}, {"name": "ink", "price": None}]
    assert list(answers["row_status"]) == ["ok", "ok"], "the model's own status keeps its name"


async def test_lists_explode_on_request(agent):
    answers = await agent.map(pd.Series(["a", "b"]), output=Order, explode="items")
    assert list(answers.index) == [0, 0, 1]
    assert list(answers["items.name"].fillna("-")) == ["pen", "ink", "-"]
    assert str(answers["items.price"].dtype) == "Float64"
    with pytest.raises(ConfigurationError, match=r"a field that is a list \(items\)"):
        await agent.map(pd.Series(["a"]), output=Order, explode="mood")


async def test_types_that_are_no_models_have_one_column():
    agent = Agent(ScriptedProvider(lambda *_: "[1, 2]"))
    answers = await agent.map(pd.Series(["a"]), output=list[int])
    assert answers["answer"].tolist() == [[1, 2]]
    exploded = await agent.map(pd.Series(["a"]), output=list[int], explode="answer")
    assert (exploded["answer"].tolist(), str(exploded["answer"].dtype)) == ([1, 2], "Int64")


async def test_an_answer_of_another_form_is_an_error_of_its_row():
    agent = Agent(ScriptedProvider(lambda messages, *_: BARE if messages[-1].text == "a" else "No idea."))
    answers = await agent.map(pd.Series(["a", "b"]), output=Order)
    assert list(answers["row_status"]) == ["ok", "error"]
    assert answers["mood"].isna().tolist() == [False, True]


async def test_values_come_back_out_of_a_checkpoint(agent, tmp_path):
    first = await agent.map(pd.Series(["a", "b"]), output=Order, checkpoint=tmp_path / "orders.sqlite")
    again = await agent.map(pd.Series(["a", "b"]), output=Order, checkpoint=tmp_path / "orders.sqlite")
    pd.testing.assert_frame_equal(first, again)
    assert len(agent.trace.runs) == 2
