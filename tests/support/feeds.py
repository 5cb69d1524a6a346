"""A real server of feeds on loopback, and feeds as they are found: good, broken and hostile."""

import gzip

from support.loopback import Answer, Loopback

RSS = """<?xml version="1.0" encoding="utf-8"?>
<rss version="2.0"><channel><title>Times</title><link>http://times.example/</link>
<item><title>AI finds &lt;b&gt;planets&lt;/b&gt;</title><link>http://times.example/1</link>
<description>&lt;p&gt;Astronomers &amp;amp; AI.&lt;/p&gt;&lt;script&gt;steal()&lt;/script&gt;</description>
<pubDate>Tue, 20 Jan 2026 10:00:00 +0100</pubDate></item>
<item><title>He said nothing</title><link>http://times.example/2</link>
<description><![CDATA[<!DOCTYPE html><p>Weather</p>]]></description>
<pubDate>Tue, 20 Jan 2026 08:00:00 GMT</pubDate></item>
</channel></rss>"""
ATOM = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>Blog</title>
<entry><title>2025年以来培育人工智能企业150家</title><link href="/posts/3"/><id>urn:3</id>
<updated>2026-01-20T11:00:00Z</updated><summary>人工智能与制造业</summary></entry>
<entry><title>No date</title><link href="javascript:alert(1)"/><id>urn:4</id>
<content type="html">&lt;i&gt;x&lt;/i&gt;</content>
</entry></feed>"""
BROKEN = RSS.replace("</item>\n<item>", "</itm>\n<item>", 1).replace("</channel></rss>", "")
ENTITY_BOMB = (
    '<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "ha">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(12))
    + "]><rss version='2.0'><channel><item><title>&m;</title></item></channel></rss>"
)
ENTITY = (
    '<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY a "hahahahahaha">]>'
    "<rss version='2.0'><channel><item><title>&a;</title></item></channel></rss>"
)
STOLEN_FILE = (
    '<?xml version="1.0"?><!DOCTYPE rss [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    "<rss version='2.0'><channel><item><title>&x;</title></item></channel></rss>"
)


def feed(text=RSS, **headers):
    return Answer(text.encode(), headers={"content-type": "application/xml", **headers})


def redirect(to, status=302):
    return Answer(b"moved", status, {"location": to})


def packed(text=RSS):
    return Answer(gzip.compress(text.encode()), headers={"content-encoding": "gzip"})


class FeedServer(Loopback):
    """Answers each path with `paths[path]`: an `Answer`, a list of them in turn, or a function of the request."""

    def __init__(self, **paths):
        super().__init__(paths.pop("tls", None))
        self.paths = {f"/{name}": answer for name, answer in paths.items()}

    def answer_to(self, request):
        answer = self.paths.get(request.path, Answer(b"no such feed", 404))
        if isinstance(answer, list):
            return answer.pop(0) if len(answer) > 1 else answer[0]
        return answer(request) if callable(answer) else answer
