"""The requests of `local_model.py`: (request, tool or None, arguments). Three sets.

FIRST was at hand while the rules were built. HELD_OUT was written before it and left as it was; its first run gave
100 %, 89 % and 100 %, and its failures were seen. FRESH was written after that; its first run gave 95 %, 90 % and 90 %.
"""

from typing import Any, Literal

Column = Literal["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]
Request = tuple[str, str | None, dict[str, Any]]


def mean_by(column: Column, group: Literal["species", "island", "sex"]) -> dict:
    """Mean of a numeric column of `penguins` for each value of a group column."""


def count_penguins(species: Literal["Adelie", "Chinstrap", "Gentoo"] | None = None) -> int:
    """Count the penguins, all or those of one species."""


def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict:
    """Get the current weather in a city."""


def convert_currency(
    amount: float, source: Literal["USD", "EUR", "GBP", "JPY"], target: Literal["USD", "EUR", "GBP", "JPY"]
) -> float:
    """Convert an amount of money from one currency to another."""


def search_articles(query: str, limit: int = 5) -> list:
    """Search the articles of the archive for a text."""


def median(numbers: list[float]) -> float:
    """Median of a list of numbers."""


def set_timer(minutes: int, label: str = "") -> str:
    """Set a timer that rings after some minutes."""


def translate(text: str, language: Literal["French", "German", "Spanish", "Italian"]) -> str:
    """Translate a text into another language."""


def send_message(recipient: str, text: str) -> str:
    """Send a text message to a person."""


def compare_cities(cities: list[str]) -> dict:
    """Compare the population of several cities."""


FIRST_TOOLS = [
    mean_by,
    count_penguins,
    get_weather,
    convert_currency,
    search_articles,
    median,
    set_timer,
    translate,
    send_message,
    compare_cities,
]
FIRST: list[Request] = [
    ("What is the mean body_mass_g by species?", "mean_by", {"column": "body_mass_g", "group": "species"}),
    ("average flipper length per island", "mean_by", {"column": "flipper_length_mm", "group": "island"}),
    ("Show me the mean bill depth for each sex.", "mean_by", {"column": "bill_depth_mm", "group": "sex"}),
    (
        "How heavy are the penguins? Give the mean body mass by island.",
        "mean_by",
        {"column": "body_mass_g", "group": "island"},
    ),
    ("mean bill_length_mm grouped by species please", "mean_by", {"column": "bill_length_mm", "group": "species"}),
    ("How many Gentoo penguins are there?", "count_penguins", {"species": "Gentoo"}),
    ("Count all penguins.", "count_penguins", {}),
    ("How many penguins are there of the species Adelie?", "count_penguins", {"species": "Adelie"}),
    ("What's the weather in Paris?", "get_weather", {"city": "Paris"}),
    ("Tell me the weather in New York in fahrenheit", "get_weather", {"city": "New York", "unit": "fahrenheit"}),
    ("current weather for São Paulo", "get_weather", {"city": "São Paulo"}),
    ("How is the weather in Berlin today?", "get_weather", {"city": "Berlin"}),
    ("Convert 100 USD to EUR", "convert_currency", {"amount": 100, "source": "USD", "target": "EUR"}),
    (
        "How much is 59.90 GBP in JPY? Please convert it.",
        "convert_currency",
        {"amount": 59.90, "source": "GBP", "target": "JPY"},
    ),
    ("convert 2500 JPY into USD", "convert_currency", {"amount": 2500, "source": "JPY", "target": "USD"}),
    ("Search the archive for 'coral reefs'", "search_articles", {"query": "coral reefs"}),
    ("Search articles about solar energy, at most 3", "search_articles", {"query": "solar energy", "limit": 3}),
    ('Find 10 articles on "black holes"', "search_articles", {"query": "black holes", "limit": 10}),
    ("What is the median of 3, 9, 4 and 12?", "median", {"numbers": [3, 9, 4, 12]}),
    ("median of 1.5 2.5 -8", "median", {"numbers": [1.5, 2.5, -8]}),
    ("Compute the median for these numbers: [10, 20, 30]", "median", {"numbers": [10, 20, 30]}),
    ("Set a timer for 10 minutes", "set_timer", {"minutes": 10}),
    ("set a 25 minute timer", "set_timer", {"minutes": 25}),
    ("Start a timer of 3 minutes with the label 'tea'", "set_timer", {"minutes": 3, "label": "tea"}),
    ("Translate 'good morning' into French", "translate", {"text": "good morning", "language": "French"}),
    (
        'Translate "Where is the station?" to German',
        "translate",
        {"text": "Where is the station?", "language": "German"},
    ),
    ("translate thank you very much to Spanish", "translate", {"text": "thank you very much", "language": "Spanish"}),
    ("Send a message to Anna: 'I will be late'", "send_message", {"recipient": "Anna", "text": "I will be late"}),
    ('Send Bob the message "Happy birthday!"', "send_message", {"recipient": "Bob", "text": "Happy birthday!"}),
    ("Compare the cities London and Madrid", "compare_cities", {"cities": ["London", "Madrid"]}),
    ("Compare the population of Rome, Oslo and Vienna.", "compare_cities", {"cities": ["Rome", "Oslo", "Vienna"]}),
    ("Hello!", None, {}),
    ("What is the capital of France?", None, {}),
    ("Tell me a joke.", None, {}),
    ("Who wrote Hamlet?", None, {}),
    ("Thanks, that was helpful.", None, {}),
    ("Explain what a p-value is.", None, {}),
    ("What is the difference between mean and median?", None, {}),
    ("Write a haiku about autumn.", None, {}),
    ("Why is the sky blue?", None, {}),
    ("What can you do?", None, {}),
    ("Is it healthy to drink coffee in the evening?", None, {}),
    ("Give me three names for a cat.", None, {}),
]


def filter_rows(column: Literal["price", "quantity", "rating"], minimum: float, maximum: float | None = None) -> list:
    """Filter the rows of the orders table by the range of a column.

    Args:
        column: the column to look at
        minimum: smallest value to keep
        maximum: largest value to keep
    """


def total_sales(region: Literal["north", "south", "east", "west"], year: int | None = None) -> float:
    """Total sales of a region, in all years or in one year."""


def describe_column(name: Literal["price", "quantity", "rating", "customer"]) -> dict:
    """Describe a column of the orders table: count, mean, minimum, maximum."""


def lookup_customer(name: str) -> dict:
    """Look up a customer by name."""


def create_event(
    title: str, day: Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"], hour: int = 9
) -> str:
    """Create an event in the calendar."""


def standard_deviation(values: list[float]) -> float:
    """Standard deviation of a list of values."""


def word_count(text: str) -> int:
    """Count the words of a text."""


def plot_histogram(column: Literal["price", "quantity", "rating"], bins: int = 20, logarithmic: bool = False) -> str:
    """Plot a histogram of a column of the orders table."""


def stock_price(symbol: str) -> float:
    """Latest price of a share by its ticker symbol."""


HELD_OUT_TOOLS = [
    filter_rows,
    total_sales,
    describe_column,
    lookup_customer,
    create_event,
    standard_deviation,
    word_count,
    plot_histogram,
    stock_price,
]
HELD_OUT: list[Request] = [
    ("Filter the rows with a price of at least 50", "filter_rows", {"column": "price", "minimum": 50}),
    (
        "Show orders with a rating between 3 and 4.5, filter the rows",
        "filter_rows",
        {"column": "rating", "minimum": 3, "maximum": 4.5},
    ),
    ("filter rows by quantity from 10 to 20", "filter_rows", {"column": "quantity", "minimum": 10, "maximum": 20}),
    ("What were the total sales in the north?", "total_sales", {"region": "north"}),
    ("total sales of the west region in 2023", "total_sales", {"region": "west", "year": 2023}),
    (
        "How much did we sell in the south in 2021? I mean total sales.",
        "total_sales",
        {"region": "south", "year": 2021},
    ),
    ("Give me the sales for the east", "total_sales", {"region": "east"}),
    ("Describe the column price", "describe_column", {"name": "price"}),
    ("Can you describe the rating column?", "describe_column", {"name": "rating"}),
    ("describe customer", "describe_column", {"name": "customer"}),
    ("Look up the customer Maria Lopez", "lookup_customer", {"name": "Maria Lopez"}),
    ("I need the customer named Smith", "lookup_customer", {"name": "Smith"}),
    ("look up customer 'Acme Ltd'", "lookup_customer", {"name": "Acme Ltd"}),
    ("Create an event 'Team lunch' on Friday", "create_event", {"title": "Team lunch", "day": "Friday"}),
    (
        'Put an event called "Review" in the calendar for Tuesday at 14',
        "create_event",
        {"title": "Review", "day": "Tuesday", "hour": 14},
    ),
    (
        "Create a calendar event Dentist on Monday at 11",
        "create_event",
        {"title": "Dentist", "day": "Monday", "hour": 11},
    ),
    ("What is the standard deviation of 2, 4, 4, 4, 5?", "standard_deviation", {"values": [2, 4, 4, 4, 5]}),
    ("standard deviation of 0.1, 0.25 and 0.9", "standard_deviation", {"values": [0.1, 0.25, 0.9]}),
    (
        "How much do 100, 110 and 95 deviate? Give the standard deviation.",
        "standard_deviation",
        {"values": [100, 110, 95]},
    ),
    ("Count the words in 'the quick brown fox'", "word_count", {"text": "the quick brown fox"}),
    ('How many words are in "to be or not to be"?', "word_count", {"text": "to be or not to be"}),
    ("Plot a histogram of price", "plot_histogram", {"column": "price"}),
    ("Draw a histogram of the quantity column with 30 bins", "plot_histogram", {"column": "quantity", "bins": 30}),
    ("histogram for rating, logarithmic", "plot_histogram", {"column": "rating", "logarithmic": True}),
    ("What is the stock price of AAPL?", "stock_price", {"symbol": "AAPL"}),
    ("Latest share price for MSFT please", "stock_price", {"symbol": "MSFT"}),
    ("price of the share NVDA", "stock_price", {"symbol": "NVDA"}),
    ("Hi there, how are you?", None, {}),
    ("What is the largest planet?", None, {}),
    ("Write a short poem about the sea.", None, {}),
    ("Who was Marie Curie?", None, {}),
    ("What does a standard deviation tell me?", None, {}),
    ("Good night.", None, {}),
    ("How do I cook rice?", None, {}),
    ("Recommend a book about history.", None, {}),
    ("Is Python faster than C?", None, {}),
    ("Explain recursion in one sentence.", None, {}),
    ("What is your name?", None, {}),
    ("Can you help me with my homework?", None, {}),
]


def correlation(first: Column, second: Column) -> float:
    """Correlation between two numeric columns of `penguins`."""


def top_products(count: int = 5, category: Literal["books", "toys", "garden"] | None = None) -> list:
    """The best selling products, of all categories or of one."""


def distance(start: str, destination: str) -> float:
    """Distance in kilometres between two places."""


def add_task(title: str, priority: Literal["low", "normal", "high"] = "normal") -> str:
    """Add a task to the to-do list."""


def tag_photos(album: str, tags: list[str]) -> int:
    """Tag all photos of an album."""


def interest(capital: float, rate: float, years: int) -> float:
    """Compound interest of a capital at a yearly rate in percent."""


def read_file(path: str) -> str:
    """Read a text file."""


def roll_dice(sides: int = 6) -> int:
    """Roll dice."""


FRESH_TOOLS = [mean_by, correlation, top_products, distance, add_task, tag_photos, interest, read_file, roll_dice]
FRESH: list[Request] = [
    (
        "What's the average bill length for the three species?",
        "mean_by",
        {"column": "bill_length_mm", "group": "species"},
    ),
    ("Compare mean flipper_length_mm between the sexes", "mean_by", {"column": "flipper_length_mm", "group": "sex"}),
    ("Give me the body mass per island, on average", "mean_by", {"column": "body_mass_g", "group": "island"}),
    (
        "correlation of bill_length_mm and body_mass_g",
        "correlation",
        {"first": "bill_length_mm", "second": "body_mass_g"},
    ),
    (
        "How strong is the correlation between flipper_length_mm and bill_depth_mm?",
        "correlation",
        {"first": "flipper_length_mm", "second": "bill_depth_mm"},
    ),
    ("Show the top 3 products", "top_products", {"count": 3}),
    ("best selling products in the category toys", "top_products", {"category": "toys"}),
    ("What are the 10 best selling garden products?", "top_products", {"count": 10, "category": "garden"}),
    ("What is the distance between Hamburg and Munich?", "distance", {"start": "Hamburg", "destination": "Munich"}),
    ("distance from Tokyo to New York", "distance", {"start": "Tokyo", "destination": "New York"}),
    ("How many kilometres is the distance from Lyon to Nice?", "distance", {"start": "Lyon", "destination": "Nice"}),
    ("Add a task 'buy milk'", "add_task", {"title": "buy milk"}),
    ('Add the task "call the bank" with high priority', "add_task", {"title": "call the bank", "priority": "high"}),
    (
        "Put a low priority task on my to-do list: 'water plants'",
        "add_task",
        {"title": "water plants", "priority": "low"},
    ),
    (
        "Tag the photos of the album 'Summer' with 'beach' and 'sun'",
        "tag_photos",
        {"album": "Summer", "tags": ["beach", "sun"]},
    ),
    ("Interest of 1000 at a rate of 3.5 percent for 10 years", "interest", {"capital": 1000, "rate": 3.5, "years": 10}),
    ("Compound interest on a capital of 2,500 at 4 for 2 years", "interest", {"capital": 2500, "rate": 4, "years": 2}),
    ("Read the file data/notes.txt", "read_file", {"path": "data/notes.txt"}),
    ("Please read the text file 'report 2024.md'", "read_file", {"path": "report 2024.md"}),
    ("Roll the dice", "roll_dice", {}),
    ("roll dice with 20 sides", "roll_dice", {"sides": 20}),
    ("Hey, nice to meet you", None, {}),
    ("What do penguins eat?", None, {}),
    ("Sing me a song.", None, {}),
    ("Does correlation imply causation?", None, {}),
    ("Who is the president of Brazil?", None, {}),
    ("What are good books for learning statistics?", None, {}),
    ("I am bored.", None, {}),
    ("Summarise what we did so far.", None, {}),
    ("What is 2 + 2?", None, {}),
    ("How do vaccines work?", None, {}),
]
