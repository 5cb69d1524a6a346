"""The kernel tools mask secrets, whatever holds them."""

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


class Client:
    api_key: str = "hunter2-A8Xk29sLq0pZ"

    def headers(self):
        return {"Authorization": "Bearer hunter2-A8Xk29sLq0pZ"}


VALUES = {
    "settings": Settings(),
    "nested": ("ann", "token", {"password": SECRET}),
    "headers": {"Authorization": f"Bearer {SECRET}", "Accept": "text/plain"},
    "environment": {"MY_SERVICE_KEY": SECRET, "HOME": "/home/ann"},
    "url": f"postgresql://ann:{SECRET}@host:5432/db",
    "Client": Client,
    "source": f'password: str = "{SECRET}"\nuser = "ann"',
    "vendor": {"x": "sk-proj-A8Xk29sLq0pZA8Xk29sLq0pZhunter2"},
    "frame": pd.DataFrame({"user": ["ann"], "password": [SECRET], "n": [1]}),
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
    assert "hunter2" not in shown, shown
    assert name in shown


def test_data_that_only_sounds_secret_stays():
    text = (
        '{"key": "A12", "token": "the", "tokens": 512, "max_tokens": 4096, "session": "morning", "keyboard": "qwerty", '
        '"author": "Ann Lee", "monkey": "capuchin", "primary_key": "id", "url": "https://example.org/a/b?page=2"}'
    )
    assert without_secrets(text) == text
    frame = pd.DataFrame({"key": ["a"], "token": ["the"], "author": ["Ann"]})
    assert "the" in KernelTools({"frame": frame}).peek_dataframe("frame")


USERS = pd.DataFrame({"user": ["ann", "bob"], "password": [SECRET, "tr0ub4dor"]})


@pytest.mark.parametrize(
    "value",
    [
        USERS[["password"]],
        USERS.set_index("password"),
        USERS.T,
        pd.Series({"host": "db", "password": SECRET}),
        pd.Series([SECRET, "db"], index=pd.MultiIndex.from_tuples([("prod", "db_password"), ("prod", "host")])),
        pd.DataFrame({"n": [1]}, index=pd.MultiIndex.from_tuples([(SECRET, SECRET)], names=["api_key", "api_key"])),
    ],
)
def test_tables_hide_secrets_wherever_their_name_stands(value):
    told = str(KernelTools({"it": value}).describe_variable("it"))
    assert SECRET not in told
    assert "(hidden)" in told or "Not shown, since their names suggest secrets" in told


def test_a_peek_leaves_out_columns_that_hold_secrets():
    tools = KernelTools({"users": USERS})
    assert SECRET not in tools.peek_dataframe("users")
    told = tools.peek_dataframe("users", columns=["password"])
    assert SECRET not in told
    assert "Not shown, since their names suggest secrets: password" in told


def test_a_large_table_of_secrets_is_told_by_its_shape():
    frame = pd.DataFrame({"n": range(60_000)}, index=[f"password of user {n}" for n in range(60_000)])
    told = KernelTools({"it": frame}).peek_dataframe("it")
    assert told.startswith("DataFrame: 60000 rows x 1 columns")
    assert "and 59990 more" in told
    assert len(told) < 2000


def test_tables_that_are_no_tables_of_pandas_are_shown():
    from dask import dataframe  # takes a second

    table = dataframe.from_pandas(USERS[["user"]], npartitions=1)
    assert "ann" in str(KernelTools({"it": table}).describe_variable("it"))
