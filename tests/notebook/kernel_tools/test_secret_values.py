"""The kernel tools mask secrets, whatever holds them."""

import dataclasses
import os

import pandas as pd
import pytest
from pydantic import BaseModel

from nbagent.errors import ToolError
from nbagent.notebook.kernel_tools.kernel_tools import KernelTools
from nbagent.notebook.kernel_tools.secret_values import without_secrets

SECRET = "hunter2-A8Xk29sLq0pZ"


class Settings(BaseModel):
    user: str = "ann"
    password: str = SECRET


@dataclasses.dataclass
class Login:
    user: str
    access_token: str


def connect(host="db", password=SECRET): ...


class Client:
    api_key: str = "hunter2-A8Xk29sLq0pZ"

    def headers(self):
        return {"Authorization": "Bearer hunter2-A8Xk29sLq0pZ"}


VALUES = {
    "settings": Settings(),
    "login": Login("ann", SECRET),
    "auth": ("ann", SECRET),
    "nested": ("ann", "token", {"password": SECRET}),
    "headers": {"Authorization": f"Bearer {SECRET}", "Accept": "text/plain"},
    "jar": {"Cookie": f"session={SECRET}"},
    "deep": [{"a": {"b": [{"client_secret": SECRET, "id": 7}]}}],
    "environment": {"MY_SERVICE_KEY": SECRET, "HOME": "/home/ann"},
    "url": f"postgresql://ann:{SECRET}@host:5432/db",
    "odbc": f"Server=host;Database=x;Uid=ann;Pwd={SECRET};",
    "connect": connect,
    "Client": Client,
    "source": f'password: str = "{SECRET}"\nuser = "ann"',
    "vendor": {"x": "sk-proj-A8Xk29sLq0pZA8Xk29sLq0pZhunter2"},
    "web": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJodW50ZXIyIn0.hunter2A8Xk29sLq0pZ",
    "frame": pd.DataFrame({"user": ["ann"], "password": [SECRET], "n": [1]}),
    "series_of_json": pd.Series([f'{{"api_key": "{SECRET}"}}']),
    "private": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}\n-----END RSA PRIVATE KEY-----".replace("-A", "A"),
}


@pytest.mark.parametrize("name", VALUES)
def test_no_tool_shows_a_secret(name):
    tools = KernelTools({name: VALUES[name]})
    shown = tools.list_variables()
    try:
        shown += f"\n{tools.describe_variable(name)}"
    except ToolError as error:
        shown += str(error)
    if hasattr(VALUES[name], "columns"):
        shown += tools.peek_dataframe(name) + tools.peek_dataframe(name, columns=["user", "password"])
    assert "hunter2" not in shown, shown
    assert name in shown


def test_values_of_the_environment_are_masked_wherever_they_are(monkeypatch):
    monkeypatch.setenv("ACME_API_KEY", "plain words 1")
    tools = KernelTools({"note": "I typed plain words 1 here", "environ": os.environ})
    assert tools.describe_variable("note") == "I typed (hidden) here"
    assert "plain words 1" not in str(tools.describe_variable("environ"))


def test_data_that_only_sounds_secret_stays():
    text = (
        '{"key": "A12", "token": "the", "tokens": 512, "max_tokens": 4096, "session": "morning", "keyboard": "qwerty", '
        '"author": "Ann Lee", "monkey": "capuchin", "primary_key": "id", "url": "https://example.org/a/b?page=2"}'
    )
    assert without_secrets(text) == text
    frame = pd.DataFrame({"key": ["a"], "token": ["the"], "author": ["Ann"]})
    assert "the" in KernelTools({"frame": frame}).peek_dataframe("frame")


@pytest.mark.parametrize("text", ["a=" * 50_000, "a: " * 50_000, "key" * 50_000, "'" * 100_000, "://a:" * 30_000])
def test_long_texts_are_fast(text):
    assert isinstance(without_secrets(text), str)


USERS = pd.DataFrame({"user": ["ann", "bob"], "password": [SECRET, "tr0ub4dor"]})


@pytest.mark.parametrize(
    "value",
    [
        USERS[["password"]],
        USERS.set_index("password"),
        USERS.set_index(["user", "password"]).assign(n=1),
        USERS.T,
        USERS["password"],
        USERS.set_index("password")["user"],
        pd.Series({"host": "db", "password": SECRET}),
    ],
)
def test_tables_hide_secrets_wherever_their_name_stands(value):
    told = str(KernelTools({"it": value}).describe_variable("it"))
    assert SECRET not in told
    assert "hidden" in told or "password" in told


def test_a_column_that_holds_secrets_is_not_shown_when_it_is_asked_for_alone():
    told = KernelTools({"users": USERS}).peek_dataframe("users", columns=["password"])
    assert SECRET not in told
    assert "Not shown, since their names suggest secrets: password" in told
    assert "ann" in KernelTools({"users": USERS}).peek_dataframe("users", columns=["user"])
