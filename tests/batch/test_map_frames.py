"""`agent.map(output=Model)`: the fields of the answers as typed columns."""

import enum
import json
from datetime import datetime
from typing import Annotated, Literal

import pandas as pd
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, Json, RootModel, SecretStr

from nbagent import Agent, Budget, ScriptedProvider
from nbagent.errors import AuthenticationError, ConfigurationError


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


class Ticket(BaseModel):
    title: str
    status: str


def test_the_items_of_a_row_cost_once_and_may_have_any_field():
    answer = '[{"title": "a", "status": "open"}, {"title": "b", "status": "closed"}]'
    agent, budget = Agent(ScriptedProvider(lambda *_: answer, price={"input": 1, "output": 1})), Budget(max_cost=100)
    frame = agent.map_sync(pd.Series(["x", "y", "x"]), output=list[Ticket], explode="answer", budget=budget)
    assert frame["status"].tolist() == ["open", "closed"] * 3
    assert frame["row_status"].tolist() == ["ok"] * 6
    assert frame["cost"].gt(0).tolist() == [True, False, True, False, False, False]
    assert frame["cost"].sum() == pytest.approx(budget.spent)


async def test_items_that_are_no_models_have_one_column():
    agent = Agent(ScriptedProvider(lambda *_: "[1, 2]"))
    exploded = await agent.map(pd.Series(["a"]), output=list[int], explode="answer")
    assert (exploded["answer"].tolist(), str(exploded["answer"].dtype)) == ([1, 2], "Int64")


async def test_an_answer_of_another_form_is_an_error_of_its_row():
    agent = Agent(ScriptedProvider(lambda messages, *_: BARE if messages[-1].text == "a" else "No idea."))
    answers = await agent.map(pd.Series(["a", "b"]), output=Order)
    assert list(answers["row_status"]) == ["ok", "error"]
    assert answers["mood"].isna().tolist() == [False, True]


class Odd(BaseModel, extra="forbid"):
    share: Annotated[float, AfterValidator(lambda value: value / 100)]
    price: Annotated[float, pydantic.BeforeValidator(lambda text: float(text.removeprefix("$")))]
    tags: set[str] = Field(default=set(), exclude=True)
    items: Json[list[int]]
    code: Annotated[int, pydantic.PlainSerializer(hex)] = Field(alias="postCode")
    secret: SecretStr | None = None

    @pydantic.computed_field
    def double(self) -> float:
        return 2 * self.price


NUMBERS, TEXTS = st.floats(), st.text(max_size=5)
ITEMS = st.lists(st.integers(-9, 9), max_size=3)
ODD = st.fixed_dictionaries(
    {"share": NUMBERS, "price": NUMBERS.map("${}".format), "items": ITEMS.map(json.dumps), "postCode": st.integers()},
    optional={"tags": st.lists(TEXTS, max_size=3), "secret": TEXTS | st.none()},
)
OUTPUTS = [
    (Odd, ODD), (list[Odd], st.lists(ODD, max_size=2)), (RootModel[list[int]], ITEMS), (set[int], ITEMS),
    (float | None, NUMBERS | st.none()), (SecretStr, TEXTS), (Json[int], st.integers().map(str)),
]  # fmt: skip


def plain(value):
    match value:
        case RootModel():
            return value.root
        case BaseModel():
            return {name: plain(item) for name, item in value}
        case set():
            return sorted(value)
        case list():
            return [plain(item) for item in value]
    return None if value is None or value is pd.NA or value != value else value


@given(st.sampled_from(OUTPUTS).flatmap(lambda pair: st.tuples(st.just(pair[0]), st.lists(pair[1], max_size=4))))
@settings(max_examples=40)
def test_a_map_gives_what_chat_gives_and_goes_on_after_any_end(tmp_path_factory, drawn):
    output, rows = drawn
    said = rows if output is Odd else [{"result": row} for row in rows]
    answers = {f"row {number}": json.dumps(each) for number, each in enumerate(said)}
    asked, stops = [], True

    def answer(messages, _):
        question = messages[-1].text
        if stops and len(asked) == len(rows) // 2:
            raise AuthenticationError("the end")
        asked.append(question)
        return answers[question]

    data, where = pd.Series(list(answers), dtype=str), {"checkpoint": tmp_path_factory.mktemp("map") / "c.sqlite"}
    if rows:
        with pytest.raises(AuthenticationError):
            Agent(ScriptedProvider(answer)).map_sync(data, output=output, concurrency=1, **where)
    stops = False
    frame = Agent(ScriptedProvider(answer)).map_sync(data, output=output, **where)
    again = Agent(ScriptedProvider(answer)).map_sync(data, output=output, **where)
    assert sorted(asked) == sorted(answers), "each row is paid once"
    said = [Agent(ScriptedProvider(answer)).chat_sync(question, output=output).data for question in answers]
    fresh = Agent(ScriptedProvider(answer)).map_sync(data, output=output)
    for each in (frame, again, fresh):
        assert (each["status"] == "ok").all()
        columns = list(Odd.model_fields) if output is Odd else ["answer"]
        found = [{name: plain(row[name]) for name in columns} for row in each.to_dict("records")]
        assert found == [plain(value) if output is Odd else {"answer": plain(value)} for value in said]


class Fussy(BaseModel):
    address: Annotated[Address, AfterValidator(lambda value: value if value.code else "nowhere")]


async def test_what_cannot_become_a_row_is_an_error_of_that_row():
    agent = Agent(ScriptedProvider(lambda messages, _: messages[-1].text))
    said = ['{"address": {"city": "Bonn", "postCode": 53111}}', '{"address": {"city": "Bonn"}}']
    frame = await agent.map(pd.Series(said), output=Fussy)
    assert frame["status"].tolist() == ["ok", "error"]
    assert frame["address.code"].isna().tolist() == [False, True]
