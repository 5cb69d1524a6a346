"""The three news functions, and the user's list of sources."""

import asyncio

import pytest
from support.feeds import ATOM, FeedServer, feed
from support.loopback import Answer

from nbagent import fetch_rss_news, filter_rss_news, search_rss_by_keywords
from nbagent.errors import ConfigurationError
from nbagent.skills.builtin.rss import feeds, news
from nbagent.skills.builtin.rss.feeds import DEFAULT, Source, read_sources, sources_file


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """Writes the list of sources."""
    path = tmp_path / "sources.txt"
    monkeypatch.setenv("NBAGENT_RSS_SOURCES", str(path))
    monkeypatch.setattr(feeds, "RETRY_DELAY_S", 0.001)
    return lambda *lines: path.write_text("\n".join(lines), "utf-8")


@pytest.fixture
async def server(sources):
    """Two feeds that work and one that does not."""
    async with FeedServer(rss=feed(), atom=feed(ATOM), gone=Answer(b"", 404)) as server:
        sources(*(f"{server.url}/{path} {path}" for path in ("rss", "atom", "gone")))
        yield server


async def test_fetch_rss_news(server):
    answer = await asyncio.to_thread(fetch_rss_news, max_articles=3)
    assert list(answer) == ["success", "summary", "articles"]
    assert len(answer["summary"].pop("fetch_time")) == len("2026-01-20T18:19:12.875")
    assert answer["success"] is True
    counts = {"total_sources": 3, "successful_sources": 2, "failed_sources": 1, "total_articles": 4}
    assert answer["summary"] == counts
    assert [article["source"] for article in answer["articles"]] == ["atom", "rss", "rss"]
    limited = await asyncio.to_thread(fetch_rss_news, sources_limit=1)
    assert (limited["summary"]["total_sources"], len(limited["articles"])) == (1, 2)


async def test_filter_and_search_rss_news(server):
    answer = await asyncio.to_thread(filter_rss_news, "AI 人工智能", top_k=1)
    assert list(answer) == ["success", "query", "total_articles", "filtered_count", "filtered_articles"]
    assert (answer["query"], answer["total_articles"], answer["filtered_count"]) == ("AI 人工智能", 4, 1)
    assert answer["filtered_articles"][0]["score"] > 0
    answer = await asyncio.to_thread(search_rss_by_keywords, ["AI", "人工智能"])
    assert list(answer) == ["success", "keywords", "total_articles", "matched_count", "matched_articles"]
    assert (answer["keywords"], answer["matched_count"]) == (["AI", "人工智能"], 2)
    assert {tuple(each["matched_keywords"]) for each in answer["matched_articles"]} == {("AI",), ("人工智能",)}


async def test_no_source_responds(sources, server):
    sources(f"{server.url}/gone gone", f"{server.url}/lost lost")
    for function, arguments in [(fetch_rss_news, ()), (filter_rss_news, ("x",)), (search_rss_by_keywords, (["x"],))]:
        answer = await asyncio.to_thread(function, *arguments)
        assert answer["success"] is False
        assert "gone: HTTP 404; lost: HTTP 404" in answer["error"]


def test_the_list_is_created_once_in_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("NBAGENT_RSS_SOURCES", raising=False)
    monkeypatch.setattr("platformdirs.user_config_dir", lambda name, **options: str(tmp_path / name))
    assert sources_file() == tmp_path / "nbagent" / "rss_sources.txt"
    assert sources_file().read_text("utf-8") == DEFAULT
    assert len(read_sources()) == 11
    sources_file().write_text("https://a.example/feed Mine", "utf-8")
    assert read_sources() == [Source("https://a.example/feed", "Mine")]


def test_lines_in_the_list(sources):
    sources("# comment", "", "https://a.example/feed", "http://10.0.0.1/f My own feed", "https://a.example/feed B")
    assert read_sources() == [
        Source("https://a.example/feed", "https://a.example/feed"),
        Source("http://10.0.0.1/f", "My own feed"),
    ]
    sources("https://user:hunter2secret@a.example/feed")
    assert "hunter2secret" not in read_sources()[0].name


def test_missing_empty_and_invalid_lists(sources):
    with pytest.raises(ConfigurationError, match="can't be read"):
        read_sources()
    sources("# nothing")
    with pytest.raises(ConfigurationError, match="has no feeds"):
        read_sources()
    sources("https://a.example/feed A", "file:///etc/passwd x")
    with pytest.raises(ConfigurationError, match=r"sources.txt, line 2: expected an http or https address"):
        read_sources()


def test_keywords_are_whole_words_except_in_chinese(monkeypatch):
    titles = ["He said it", "AI-based", "企业AI应用", "machine  learning C++"]
    articles = [{"title": title, "summary": ""} for title in titles]
    monkeypatch.setattr(news, "_newest", lambda: (articles, 0, 1, {}))

    def matched(*keywords):
        return [each["title"] for each in search_rss_by_keywords(list(keywords))["matched_articles"]]

    assert matched("AI") == ["AI-based", "企业AI应用"]
    assert matched("应用") == ["企业AI应用"]
    assert matched("Machine Learning", "c++", "(a+)+$", "it", "")[0] == "machine  learning C++"
