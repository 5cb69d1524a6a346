"""`agent.map(output=Model)`: the answers' fields as typed columns."""

import enum
from datetime import datetime
from typing import Annotated, Literal

import pandas as pd
import pydantic
import pytest
from pydantic import AfterValidator, BaseModel, Field, Json, RootModel

from nbagent import Agent, Budget, ScriptedProvider
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


async def test_fields_are_columns_even_without_rows(agent):
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


class Ticket(BaseModel):
    title: str
    status: str


def test_a_rows_items_cost_once_and_may_have_any_field():
    answer = '[{"title": "a", "status": "open"}, {"title": "b", "status": "closed"}]'
    agent, budget = Agent(ScriptedProvider(lambda *_: answer, price={"input": 1, "output": 1})), Budget(max_cost=100)
    frame = agent.map_sync(pd.Series(["x", "y", "x"]), output=list[Ticket], explode="answer", budget=budget)
    assert frame["status"].tolist() == ["open", "closed"] * 3
    assert frame["row_status"].tolist() == ["ok"] * 6
    assert frame["cost"].gt(0).tolist() == [True, False, True, False, False, False]
    assert frame["cost"].sum() == pytest.approx(budget.spent)


async def test_items_that_are_not_models_have_one_column():
    agent = Agent(ScriptedProvider(lambda *_: "[1, 2]"))
    exploded = await agent.map(pd.Series(["a"]), output=list[int], explode="answer")
    assert (exploded["answer"].tolist(), str(exploded["answer"].dtype)) == ([1, 2], "Int64")


async def test_an_invalid_answer_is_its_rows_error():
    agent = Agent(ScriptedProvider(lambda messages, *_: BARE if messages[-1].text == "a" else "No idea."))
    answers = await agent.map(pd.Series(["a", "b"]), output=Order)
    assert list(answers["row_status"]) == ["ok", "error"]
    assert answers["mood"].isna().tolist() == [False, True]


class Odd(BaseModel, extra="forbid"):
    price: Annotated[float, pydantic.BeforeValidator(lambda text: float(text.removeprefix("$")))]
    tags: set[str] = Field(default=set(), exclude=True)
    items: Json[list[int]]
    code: Annotated[int, pydantic.PlainSerializer(hex)] = Field(alias="postCode")

    @pydantic.computed_field
    def double(self) -> float:
        return 2 * self.price


async def test_unusual_models_give_the_same_values_in_chat_map_and_checkpoint(tmp_path):
    said = '{"price": "$2.5", "tags": ["a"], "items": "[1, 2]", "postCode": 255}'
    agent = Agent(ScriptedProvider(lambda *_: said))
    value = (await agent.chat("?", output=Odd)).data
    for _ in range(2):
        frame = await agent.map(pd.Series(["a"]), output=Odd, checkpoint=tmp_path / "map.sqlite")
    assert len(agent.provider.requests) == 2, "one from chat, one from the map"
    (row,) = frame.to_dict("records")
    assert {name: row[name] for name in Odd.model_fields} == dict(value) | {"tags": ["a"]}
    for output, answer in (
        (RootModel[list[int]], "[1]"),
        (set[int], "[1]"),
        (Json[int], '"1"'),
        (float | None, "null"),
    ):
        agent = Agent(ScriptedProvider(lambda *_, answer=answer: f'{{"result": {answer}}}'))
        found = (await agent.map(pd.Series(["a"]), output=output))["answer"].iloc[0]
        value = (await agent.chat("?", output=output)).data
        expected = sorted(value) if isinstance(value, set) else getattr(value, "root", value)
        assert (expected is None and pd.isna(found)) or found == expected, output


class Fussy(BaseModel):
    address: Annotated[Address, AfterValidator(lambda value: value if value.code else "nowhere")]


async def test_a_value_that_cannot_be_flattened_is_its_rows_error():
    agent = Agent(ScriptedProvider(lambda messages, _: messages[-1].text))
    said = ['{"address": {"city": "Bonn", "postCode": 53111}}', '{"address": {"city": "Bonn"}}']
    frame = await agent.map(pd.Series(said), output=Fussy)
    assert frame["status"].tolist() == ["ok", "error"]
    assert frame["address.code"].isna().tolist() == [False, True]
