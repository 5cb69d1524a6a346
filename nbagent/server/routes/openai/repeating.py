"""A second attempt at a turn of a stream. What was sent can't be taken back: the model has to say it again first."""

from __future__ import annotations

from nbagent.server.routes.openai.errors import answer_restarted


class TurnText:
    """The text of one turn of a stream.

    >>> turn = TurnText()
    >>> turn.add("It is "), turn.restart(), turn.add("It "), turn.add("is sunny.")
    ('It is ', None, '', 'sunny.')
    """

    def __init__(self) -> None:
        self._said: list[str] = []
        self._to_repeat = ""

    @property
    def is_repeating(self) -> bool:
        """Whether the second attempt has not come yet to what is new."""
        return bool(self._to_repeat)

    def add(self, piece: str) -> str:
        """What is new in a piece. Raises `RefusedError` if the second attempt says something else than the first."""
        if self._to_repeat:
            known, self._to_repeat = self._to_repeat[: len(piece)], self._to_repeat[len(piece) :]
            if not piece.startswith(known):
                raise answer_restarted()
            piece = piece[len(known) :]
        if piece:
            self._said.append(piece)
        return piece

    def restart(self) -> None:
        """The turn begins anew."""
        self._to_repeat = "".join(self._said)

    def end(self, text: str = "") -> str:
        """The turn is over, and the next one begins. Returns what of its whole `text` was not said yet.

        Raises `RefusedError` if the second attempt is shorter than the first one.
        """
        said = "".join(self._said)
        if self._to_repeat:
            raise answer_restarted()
        self._said = []
        return text[len(said) :] if text.startswith(said) else ""
