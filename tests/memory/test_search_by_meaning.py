"""`Memory(embed=…)`: `search_memory` also finds notes by meaning."""

import logging

import pytest

from nbagent import Agent, FunctionCall, Memory, ScriptedProvider

#: What the embeddings of these tests know of words: each has a direction of its own.
CONCEPTS = [{"car", "automobile", "vehicle"}, {"metric", "metres", "units"}, {"tea", "beverage", "drink"}]


class Embedder:
    """Counts the words of each concept. `texts` lists the texts that were embedded."""

    def __init__(self):
        self.texts = []

    def __call__(self, texts):
        self.texts += texts
        return [[sum(word in concept for word in text.lower().split()) for concept in CONCEPTS] for text in texts]


@pytest.fixture
def embed():
    return Embedder()


@pytest.fixture
def memory(tmp_path, embed):
    memory = Memory(tmp_path / "memory.sqlite", write=True, embed=embed)
    memory.run("create", path="/memories/a.md", file_text="Their car is blue")
    memory.run("create", path="/memories/b.md", file_text="Use metric units")
    memory.run("create", path="/memories/c.md", file_text="They like tea at four")
    return memory


async def found(memory, query, **arguments):
    call = FunctionCall("search_memory", {"query": query, **arguments})
    agent = Agent(ScriptedProvider([call, "done"])).use(memory)
    return (await agent.chat("?")).function_calls[0]["result"].splitlines()


async def test_notes_are_found_by_meaning(memory):
    assert await found(memory, "which automobile", limit=1) == ["/memories/a.md: Their car is blue"]
    # the word is in one note and the meaning in another, so both come before the third
    assert [line.split(":")[0] for line in await found(memory, "four metres")][2] == "/memories/a.md"


async def test_a_version_of_a_note_is_embedded_once(memory, embed):
    await found(memory, "car")
    assert len(embed.texts) == 1 + 3
    memory.run("str_replace", path="/memories/a.md", old_str="blue", new_str="red")
    memory.run("delete", path="/memories/c.md")
    embed.texts.clear()
    assert (await found(memory, "automobile"))[0] == "/memories/a.md: Their car is red"
    assert embed.texts == ["automobile", "/memories/a.md\nTheir car is red"]


@pytest.mark.parametrize(
    ("embed", "said"),
    [
        (lambda texts: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda texts: [[1.0]], "embed returned 1 vectors for 4 texts"),
        (lambda texts: [[1.0] * (1 + len(text)) for text in texts], "all of the same length"),
    ],
)
async def test_if_embedding_fails_the_search_is_by_words(memory, embed, said, caplog):
    with caplog.at_level(logging.WARNING, logger="nbagent"):
        first, last = await found(Memory(memory.path, embed=embed), "tea")
    assert first == "/memories/c.md: They like tea at four"
    assert last.startswith("(Searched by words only: ")
    assert said in last
    assert "memory is searched by words only" in caplog.text
