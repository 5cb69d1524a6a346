"""Prints the badge that opens a repository's notebooks on mybinder.org: python binder/link.py https://github.com/you/it

The image is built from the branch `binder`, which changes only when the environment does, so that it seldom has to be
built again. The notebooks and the code are those of `main`: nbgitpuller pulls them when the link is opened.
"""

from __future__ import annotations

import sys
from urllib.parse import quote, urlencode, urlsplit

ENVIRONMENT, CONTENT, FOLDER = "binder", "main", "latest"
START = f"lab/tree/{FOLDER}/notebooks/01_quickstart.ipynb?autodecode"
BADGE = "https://mybinder.org/badge_logo.svg"


def pulling(repository: str) -> str:
    """Where the image's server pulls the content of a repository, and then shows the quickstart."""
    return "git-pull?" + urlencode({"repo": repository, "branch": CONTENT, "targetpath": FOLDER, "urlpath": START})


def link(repository: str) -> str:
    """The address on mybinder.org of a repository at GitHub, GitLab or elsewhere, by its https address."""
    address = urlsplit(repository.removesuffix(".git").rstrip("/"))
    path = address.path.strip("/")
    if address.scheme != "https" or not path:
        raise SystemExit(f"Expected the https address of a repository, got {repository!r}.")
    where = {"github.com": f"gh/{path}", "gitlab.com": f"gl/{quote(path, safe='')}"}
    image = where.get(address.netloc, f"git/{quote(address.geturl(), safe='')}")
    return f"https://mybinder.org/v2/{image}/{ENVIRONMENT}?urlpath={quote(pulling(address.geturl()), safe='')}"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit((__doc__ or "").splitlines()[0])
    print(f"[![Open on Binder]({BADGE})]({link(sys.argv[1])})")
