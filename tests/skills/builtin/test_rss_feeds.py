"""Fetching feeds from a real server: formats, redirects, compression, retries and limits."""

import gzip

import pytest
from support.feeds import ATOM, BROKEN, ENTITY, ENTITY_BOMB, RSS, STOLEN_FILE, FeedServer, feed, packed, redirect
from support.loopback import Answer

from nbagent.skills.builtin.rss import feeds
from nbagent.skills.builtin.rss.feeds import Source


@pytest.fixture(autouse=True)
def without_delay(monkeypatch):
    monkeypatch.setattr(feeds, "RETRY_DELAY_S", 0.001)


def source(server, path="feed"):
    return Source(f"{server.url}/{path}", path)


async def fetched(server, path="feed"):
    (found,) = await feeds.fetch([source(server, path)])
    return found


async def fetched_from(*answers):
    """The result for a server with these responses, and its number of requests."""
    async with FeedServer(feed=list(answers)) as server:
        found = await fetched(server)
        return found, len(server.requests)


async def test_rss_and_atom_with_relative_links_and_no_dates():
    async with FeedServer(rss=feed(RSS), atom=feed(ATOM)) as server:
        found = await fetched(server, "rss")
        assert len(found.articles) == 2
        assert found.articles[0] == {
            "title": "AI finds planets",
            "link": "http://times.example/1",
            "summary": "Astronomers & AI.",
            "published": "2026-01-20T09:00:00+00:00",
            "source": "rss",
        }
        assert found.articles[1]["summary"] == "Weather"
        first, second = (await fetched(server, "atom")).articles
        assert first["link"] == f"{server.url}/posts/3"
    assert first["title"] == "2025年以来培育人工智能企业150家"
    assert (second["link"], second["summary"], second["published"]) == ("", "x", None)


async def test_broken_xml_is_read_as_far_as_possible():
    found, _ = await fetched_from(feed(BROKEN))
    assert {article["title"] for article in found.articles} >= {"He said nothing"}
    found, requests = await fetched_from(feed("<html><body>Sign in</body></html>"))
    assert (found.articles, found.error, requests) == ([], "it is not a feed", 1)


async def test_redirects_have_a_limit_and_stay_within_http():
    paths = {"old": redirect("/new", 301), "new": redirect("/feed"), "feed": feed(), "loop": redirect("/loop")}
    async with FeedServer(**paths, file=redirect("file:///etc/passwd")) as server:
        assert len((await fetched(server, "old")).articles) == 2
        assert (await fetched(server, "loop")).error == "Exceeded maximum allowed redirects."
        assert (await fetched(server, "file")).error


async def test_compressed_feeds_are_read_and_huge_ones_refused(monkeypatch):
    monkeypatch.setattr(feeds, "MAX_BYTES", 100_000)
    answers = {
        "good": packed(),
        "bomb": Answer(gzip.compress(b"0" * 1_000_000), headers={"content-encoding": "gzip"}),
        "endless": Answer(b"<!-- " + b"x" * 200_000, end="stall"),
    }
    async with FeedServer(**answers) as server:
        good, *others = [await fetched(server, path) for path in answers]
    assert len(good.articles) == 2
    assert [found.error for found in others] == ["it is larger than 0.0953674 MB"] * 2


async def test_xml_entities_are_never_expanded():
    for text, title in ((ENTITY, "&a;"), (ENTITY_BOMB, "&m;"), (STOLEN_FILE, "&x;")):
        for body in (text.encode(), text.replace("?>", ' encoding="utf-16"?>').encode("utf-16")):
            found, _ = await fetched_from(Answer(body, headers={"content-type": "application/xml"}))
            assert [article["title"] for article in found.articles] == [title]


async def test_only_temporary_failures_are_retried():
    found, requests = await fetched_from(Answer(b"", 503))
    assert (found.error, requests) == ("HTTP 503", 3)
    found, requests = await fetched_from(Answer(b"", 404))
    assert (found.error, requests) == ("HTTP 404", 1)
    found, requests = await fetched_from(Answer(b"", 503), Answer(b"<rss", end="drop"), feed())
    assert (len(found.articles), requests) == (2, 3)


async def test_a_slow_server_does_not_hold_up_the_others(monkeypatch):
    monkeypatch.setattr(feeds, "TIMEOUT_S", 0.3)
    monkeypatch.setattr(feeds, "TOTAL_S", 0.6)
    async with FeedServer(slow=Answer(b"<rss", end="stall"), feed=feed()) as server:
        slow, good = await feeds.fetch([source(server, "slow"), source(server)])
    assert slow.error.startswith("no answer within 0.")
    assert len(good.articles) == 2


async def test_redirects_to_the_users_network_are_refused():
    async with FeedServer(feed=feed()) as inner:
        own = inner.url.replace("127.0.0.1", "localhost")
        async with FeedServer(feed=redirect(f"{own}/feed"), cloud=redirect("http://169.254.169.254/")) as outer:
            for path in ("feed", "cloud"):
                assert "which is this machine or another on its network" in (await fetched(outer, path)).error
        assert inner.requests == []
