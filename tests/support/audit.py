"""Known weaknesses of what is installed: runs pip-audit, and says what that could find out.

`make audit` fails for a weakness that `ACCEPTED` does not name. It does not fail where the advisories can't be read,
without a network or behind a mirror that has none: then nothing is known, and it says so.
"""

from __future__ import annotations

import json
import subprocess
import sys

#: Advisories that do not concern nbagent, by their id, with the reason.
ACCEPTED: dict[str, str] = {}


def verdict(report: str, trouble: str = "") -> tuple[bool, str]:
    """Whether to fail, and what to say, from pip-audit's JSON and from what it wrote to stderr."""
    try:
        packages = json.loads(report)["dependencies"]
    except (ValueError, LookupError, TypeError):
        reason = trouble.strip().splitlines()[-1:] or ["no reason given"]
        return False, f"NOT AUDITED: the advisories could not be read: {reason[0]}"
    read = [each for each in packages if "vulns" in each]
    if not read:
        return False, f"NOT AUDITED: no advisories could be read for any of the {len(packages)} packages."
    found = [
        f"{package['name']} {package['version']}: {weakness['id']}, fixed in {weakness['fix_versions'] or '-'}"
        for package in read
        for weakness in package["vulns"]
        if weakness["id"] not in ACCEPTED
    ]
    accepted = [f"{name} is accepted: {reason}" for name, reason in ACCEPTED.items()]
    sum_up = f"Audited {len(read)} of {len(packages)} packages, weaknesses: {len(found)}."
    return bool(found), "\n".join([*found, *accepted, sum_up])


def main(pip_audit: str, packages: str) -> int:
    command = [pip_audit, "--path", packages, "--skip-editable", "--progress-spinner", "off", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    failed, text = verdict(done.stdout, done.stderr)
    print(text)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
