"""Accessibility of what a page shows, by axe-core."""

from axe_playwright_python.sync_playwright import Axe


def serious(page, *selectors):
    """What axe-core finds in these parts that is serious or critical: rule, element, remedy."""
    options = {"resultTypes": ["violations"]}
    found = Axe().run(page, context={"include": [[selector] for selector in selectors]}, options=options).response
    assert found["testEngine"]["name"] == "axe-core"
    return [
        (rule["id"], node["html"][:300], node["failureSummary"])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]
