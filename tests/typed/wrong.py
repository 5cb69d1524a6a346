"""Twenty programs that type checkers must refuse, each in the line that ends in `# wrong`. They are never run."""

from pydantic import BaseModel

from nbagent import Agent, AgentConfig, FunctionCall, Limits, LLMMessage, RequestOptions, compare, create_provider, tool

agent = Agent("local")


class Sight(BaseModel):
    species: str
    count: int


def misspelt_option() -> None:
    agent.chat_sync("Hi", temprature=0.2)  # wrong


def misspelt_option_of_a_stream() -> None:
    agent.chat_stream("Hi", max_token=7)  # wrong


def limit_as_an_option() -> None:
    agent.chat_sync("Hi", max_cost=0.01)  # wrong


def key_as_an_option() -> None:
    agent.chat_stream("Hi", api_key="k")  # wrong


def misspelt_setting() -> None:
    create_provider("openai", api_ky="k")  # wrong


def unknown_level() -> None:
    agent.chat_sync("Hi", thinking="lots")  # wrong


def text_as_a_temperature() -> None:
    agent.chat_sync("Hi", temperature="low")  # wrong


def number_as_a_message() -> None:
    agent.chat_sync(5)  # wrong


def none_as_a_message() -> None:
    agent.chat_stream(None)  # wrong


def unknown_role() -> None:
    LLMMessage("usr", "Hi")  # wrong


def numbers_as_tools() -> None:
    Agent("local", tools=[7])  # wrong


def dict_as_limits() -> None:
    agent.chat_sync("Hi", limits={"max_cost": 1})  # wrong


def unknown_limit() -> None:
    Limits(max_costs=1)  # wrong


async def forgotten_await() -> None:
    print(agent.chat("Hi").content)  # wrong


async def unknown_field() -> None:
    print((await agent.extract("Two Adelies", Sight)).size)  # wrong


async def field_of_a_list() -> None:
    print((await agent.extract("Two Adelies", list[Sight])).species)  # wrong


def result_of_any_event() -> None:
    for event in agent.chat_stream("Hi"):
        print(event.result)  # wrong


def result_of_a_text() -> None:
    for event in agent.chat_stream("Hi"):
        if event.type == "text":
            print(event.result)  # wrong


def unknown_event() -> None:
    for event in agent.chat_stream("Hi"):
        if event.type == "finished":  # wrong
            print(event)


def unknown_tool_option() -> None:
    @tool(aprove=True)  # wrong
    def area(width: float) -> float:
        return width * width


@tool
def double(number: int) -> int:
    """Twice a number."""
    return 2 * number


def tool_called_wrongly() -> None:
    double("four")  # wrong


def one_argument_too_few() -> None:
    def approve(call: FunctionCall) -> bool:
        return bool(call)

    Agent("local", approve=approve)  # wrong


def unknown_setting_of_a_config() -> None:
    AgentConfig(modle="qwen")  # wrong


def options_in_a_variable() -> None:
    options: RequestOptions = {"temperatur": 0}  # wrong
    print(options)


def misspelt_option_of_a_saved_agent() -> None:
    Agent.load("talk.json", "local", tool=[print])  # wrong


def number_as_a_system_prompt() -> None:
    Agent.load("talk.json", system_prompt=3)  # wrong


def misspelt_option_of_a_comparison() -> None:
    compare({"one": agent}, ["Hi"], temprature=0)  # wrong


def option_that_compare_sets() -> None:
    compare({"one": agent}, ["Hi"], origin={"source": "me"})  # wrong


def unknown_status() -> bool:
    return agent.chat_sync("Hi").status == "finished"  # wrong


def status_set_to_another() -> None:
    agent.chat_sync("Hi").status = "done"  # wrong


def handler_that_is_none() -> None:
    agent.chat_sync("Hi", handler=print)  # wrong


def unknown_name() -> None:
    import nbagent

    nbagent.Agnet("local")  # wrong
