"""Labels for finding and grouping runs in the trace: tags, user, session and other metadata."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nbagent.checks import check_type, invalid


@dataclass(frozen=True, slots=True)
class Labels:
    """A run's labels. `session` is a session of the application, such as a user's visit."""

    tags: tuple[str, ...] = ()
    user: str | None = None
    session: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def within(self, outer: Labels) -> Labels:
        """Combine these labels with outer ones. All tags are kept, the outer ones first. For everything else, the inner
        value takes precedence.

        >>> Labels(("b",), user="u2").within(Labels(("a",), user="u1", session="s"))
        Labels(tags=('a', 'b'), user='u2', session='s', metadata={})
        """
        return Labels(
            tuple(dict.fromkeys((*outer.tags, *self.tags))),
            self.user or outer.user,
            self.session or outer.session,
            {**outer.metadata, **self.metadata},
        )

    def as_metadata(self) -> dict[str, Any]:
        """Return the labels that are set, for an event's metadata."""
        values = {"tags": list(self.tags), "user": self.user, "session": self.session, "metadata": dict(self.metadata)}
        return {name: value for name, value in values.items() if value}


def checked_labels(
    tags: Iterable[str] | None, user: str | None, session: str | None, metadata: Mapping[str, Any] | None
) -> Labels:
    """Check a user's labels and return them. Raises ConfigurationError if they are invalid."""
    if isinstance(tags, (str, bytes, Mapping)) or not (tags is None or isinstance(tags, Iterable)):
        raise invalid("tags", tags, "a list of strings", 'Write tags=["exam"].')
    names = tuple(tags or ())
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise invalid("tags", name, "strings", 'Write tags=["exam"].')
    check_type("user", user, str, optional=True, fix='Pass the id of a user, such as user="u1".')
    check_type("session", session, str, optional=True, fix='Pass the id of a session, such as session="s1".')
    check_type("metadata", metadata, Mapping, optional=True, fix='Write metadata={"variant": "b"}.')
    if not metadata:
        return Labels(names, user, session)
    pairs = dict(metadata)
    try:
        json.dumps(pairs, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise invalid("metadata", pairs, "values that JSON supports", f"{error}.") from None
    return Labels(names, user, session, pairs)
