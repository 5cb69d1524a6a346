"""The line of facts below an answer."""

import re

from nbagent.core.render.markdown import footer_html


def test_facts_stay_apart_where_the_style_is_stripped():
    assert re.sub("<[^>]*>", "", footer_html(["model", "2 in", "<1 s"])) == "model 2 in &lt;1 s"
    assert footer_html([]) == ""
