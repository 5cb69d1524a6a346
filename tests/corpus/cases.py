"""Thirty notebooks with faults as people have them, each with its mend.

The code cells of a notebook are numbered from 1 and have the ids c1, c2, ...; above them is a heading with the id
"head", so that a person counts one more.
"""

from dataclasses import dataclass, field

EDIT, ADD, MOVE = "edit", "add", "move"


@dataclass(frozen=True)
class Case:
    """A notebook: its code cells; what the model is told; and what it does, for each time that it is asked.

    - a mend is `(EDIT, number, source)`, `(ADD, below, source)` or `(MOVE, number, below)`
    - `alone`: it needs a kernel of its own, since it ends or fills it
    """

    name: str
    cells: list[str]
    told: list[str]
    mends: list[list[tuple]] = field(default_factory=list)
    alone: bool = False
    files: dict[str, str] = field(default_factory=dict)


def case(name, *cells, told, mend=(), mends=None, **options):
    asked = [list(mend)] if mends is None else mends
    return Case(name, list(cells), [told] if isinstance(told, str) else told, asked, **options)


ORDERS = "import pandas as pd\norders = pd.DataFrame({'Plan': ['a', 'b', 'a'], 'Price': [3.0, 4.0, 5.0]})"
CSV = "plan,price\na,3\nb,4\n"

CASES = [
    # -- a missing import
    case("an import is missing", "orders = [3, 1, 2]", "np.mean(orders)",
         told="needs 'np', which no cell defines",
         mend=[(EDIT, 1, "import numpy as np\norders = [3, 1, 2]")]),
    case("an import is missing in a function", "def kind(path):\n    return Path(path).suffix", "kind('a.csv')",
         told="needs 'Path', which no cell defines",
         mend=[(ADD, "", "from pathlib import Path")]),
    case("a module is misspelt", "import panda as pd", "pd.Series([1]).sum()",
         told=["ModuleNotFoundError: No module named 'panda'", "needs 'pd' of cell 2, which failed"],
         mend=[(EDIT, 1, "import pandas as pd")]),
    case("an import stands below its use", "rng = random.Random(1)", "import random", "rng.random() < 1",
         told="needs 'random', which only cell 3 below it defines",
         mend=[(MOVE, 2, "head")]),
    # -- a renamed column
    case("a column got a capital", ORDERS, "orders['price'].sum()",
         told="KeyError: 'price'", mend=[(EDIT, 2, "orders['Price'].sum()")]),
    case("a column is grouped by its old name", ORDERS, "orders.groupby('tariff')['Price'].mean()",
         told="KeyError: 'tariff'", mend=[(EDIT, 2, "orders.groupby('Plan')['Price'].mean()")]),
    case("a column is an attribute no more", ORDERS, "orders.revenue.max()",
         told="has no attribute 'revenue'", mend=[(EDIT, 2, "orders.Price.max()")]),
    case("a table is joined by its old key", ORDERS, "names = pd.DataFrame({'plan_id': ['a'], 'name': ['Basic']})",
         "orders.merge(names, on='Plan').shape",
         told="KeyError: 'Plan'", mend=[(EDIT, 3, "orders.merge(names, left_on='Plan', right_on='plan_id').shape")]),
    # -- the order of cells
    case("a table is made below its use", "total = sum(prices)", "prices = [1, 2]", "total",
         told=["needs 'prices', which only cell 3 below it defines", "needs 'total' of cell 2, which failed"],
         mend=[(MOVE, 2, "head")]),
    case("a function is defined below its use", "double(4)", "def double(x):\n    return 2 * x",
         told="needs 'double', which only cell 3 below it defines", mend=[(MOVE, 1, "c2")]),
    case("a name comes from a cell that is gone", "len(customers)",
         told="needs 'customers', which no cell defines", mend=[(ADD, "head", "customers = ['Ada', 'Ben']")]),
    case("a name is another thing by then", "count = 2", "count = 'two'", "count + 1",
         told="TypeError", mend=[(EDIT, 2, "count_text = 'two'")]),
    # -- a wrong dtype
    case("prices are texts", "prices = ['3.5', '4']", "sum(prices)",
         told="TypeError", mend=[(EDIT, 2, "sum(map(float, prices))")]),
    case("dates are texts", "import pandas as pd\ndays = pd.Series(['2026-11-27'])", "days.dt.year[0]",
         told="Can only use .dt accessor", mend=[(EDIT, 2, "pd.to_datetime(days).dt.year[0]")]),
    case("decimals have commas", "float('1,5')",
         told="could not convert string to float: '1,5'", mend=[(EDIT, 1, "float('1,5'.replace(',', '.'))")]),
    case("whole numbers have a gap", "import pandas as pd\nages = pd.Series([41, None])", "ages.astype('int64').max()",
         told="IntCastingNaNError", mend=[(EDIT, 2, "ages.astype('Int64').max()")]),
    case("a gap can't be sorted", "sorted([3, None, 1])",
         told="'<' not supported", mend=[(EDIT, 1, "sorted(x for x in [3, None, 1] if x is not None)")]),
    # -- a removed API
    case("DataFrame.append is gone", ORDERS, "orders = orders.append(orders)", "len(orders)",
         told="no attribute 'append'", mend=[(EDIT, 2, "orders = pd.concat([orders, orders])")]),
    case("np.float is gone", "import numpy as np", "np.array([1]).astype(np.float)",
         told="has no attribute 'float'", mend=[(EDIT, 2, "np.array([1]).astype(float)")]),
    case("collections.Mapping is gone", "import collections\nisinstance({}, collections.Mapping)",
         told="has no attribute 'Mapping'",
         mend=[(EDIT, 1, "import collections.abc\nisinstance({}, collections.abc.Mapping)")]),
    case("read_csv has an option less", "import pandas as pd\npd.read_csv('orders.csv', error_bad_lines=False).shape",
         told="unexpected keyword argument 'error_bad_lines'", files={"orders.csv": CSV},
         mend=[(EDIT, 1, "import pandas as pd\npd.read_csv('orders.csv', on_bad_lines='skip').shape")]),
    case("print is a statement", "total = 3", "print total",
         told="SyntaxError", mend=[(EDIT, 2, "print(total)")]),
    case("a magic is misspelt", "%matplotlb inline\n1",
         told="UsageError", mend=[(EDIT, 1, "%matplotlib inline\n1")]),
    # -- a lost file
    case("a file is in a folder now", "open('orders.csv').readline()",
         told="No such file or directory: 'orders.csv'", files={"data/orders.csv": CSV},
         mend=[(EDIT, 1, "open('data/orders.csv').readline()")]),
    case("a file was on a colleague's machine", "import pandas as pd", "orders = pd.read_csv('/home/ada/orders.csv')",
         "orders.shape",
         told=["No such file or directory: '/home/ada/orders.csv'", "needs 'orders' of cell 3, which failed"],
         files={"orders.csv": CSV}, mend=[(EDIT, 2, "orders = pd.read_csv('orders.csv')")]),
    # -- it does not end, or shows too much
    case("a loop does not end", "rows = 3", "while rows > 0:\n    total = rows", "rows", alone=True,
         told="stopped after 2 seconds, the longest that a cell may run",
         mend=[(EDIT, 2, "while rows > 0:\n    rows -= 1")]),
    case("an iterator is at its end", "prices = iter([1, 2])", "sum(prices)", "max(prices)",
         told="ValueError: max()", mend=[(EDIT, 1, "prices = [1, 2]")]),
    case("a cell prints without an end", "row = 'x' * 200\nwhile True:\n    print(row)", alone=True,
         told="stopped: it showed more than 20,000 characters",
         mend=[(EDIT, 1, "row = 'x' * 200\nprint(row[:20])")]),
    # -- what only running it twice shows
    case("a number is drawn without a seed", "import random\nrandom.random()",
         told="is saved", mend=[(EDIT, 1, "import random\nrandom.Random(7).random()")]),
    # -- more than one fault, and a mend that takes three tries
    case("two faults, and a first mend that is none", ORDERS, "orders['cost'].sum()", "round('3.7')",
         told=["KeyError: 'cost'", "TypeError"],
         mends=[[(EDIT, 2, "orders['prices'].sum()"), (EDIT, 3, "round(float('3.7'))")],
                [(EDIT, 2, "orders['PRICE'].sum()")],
                [(EDIT, 2, "orders['Price'].sum()")]]),
]  # fmt: skip
