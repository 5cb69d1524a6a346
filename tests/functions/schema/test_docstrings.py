"""Docstrings in the three known styles, and in none."""

import inspect

import pytest

from nbagent.functions.schema.docstrings import parse_docstring

BOTH_LINES = "Search terms in any order."
GOOGLE = """Find files.

    Looks into folders too.

    Args:
        query (str): Search terms
            in any order.
        limit (Optional[dict[str, int]]): How many:
            at most 100.
        *names: More.
        **options: The rest.

    Returns:
        list: The paths.

    Raises:
        ValueError: If query is empty.
    """
NUMPY = """Find files.

    Looks into folders too.

    Parameters
    ----------
    query : str
        Search terms
        in any order.
    limit, offset : int, optional
        A number.
    bare

    Returns
    -------
    list
        The paths.
    """
REST = """Find files.

    Looks into folders too.

    :param query: Search terms
        in any order.
    :param int limit: How many.
    :type query: str
    :returns: The paths.
    :raises ValueError: If query is empty.
    """


@pytest.mark.parametrize(
    ("text", "parameters"),
    [
        (
            GOOGLE,
            {"query": BOTH_LINES, "limit": "How many: at most 100.", "names": "More.", "options": "The rest."},
        ),
        (NUMPY, {"query": BOTH_LINES, "limit": "A number.", "offset": "A number.", "bare": ""}),
        (REST, {"query": BOTH_LINES, "limit": "How many."}),
    ],
    ids=["google", "numpy", "rest"],
)
def test_styles(text, parameters):
    assert parse_docstring(inspect.cleandoc(text)) == ("Find files.\n\nLooks into folders too.", parameters)


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("", ""),
        ("Args:\n    a: Only parameters.", ""),
        ("Prices, from\n:func:`load`,\n:mod:`shop`.", "Prices, from\n:func:`load`,\n:mod:`shop`."),
        ("Note that this: is no section.\n\nNor is this.", "Note that this: is no section.\n\nNor is this."),
        ("Arguments: are not a section here.", "Arguments: are not a section here."),
        ("查询顾客信息。\n\n参数见下。", "查询顾客信息。\n\n参数见下。"),
        ("Do.\n\nExample:\n    >>> do()\n", "Do."),
    ],
)
def test_the_description_ends_at_the_first_section(text, description):
    assert parse_docstring(text)[0] == description
