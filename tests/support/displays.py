"""The displays that a view creates below a cell, without a kernel."""

from nbagent.chat.transcript import MimeBundle


class Displays:
    """For `CellView(transcript, Displays())`. `sent` has every message, `shown` the last message of each display."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, MimeBundle]] = []
        self.shown: list[MimeBundle] = []

    def __call__(self, index: int, bundle: MimeBundle) -> None:
        assert index <= len(self.shown), "displays are created one after the other"
        assert set(bundle) == {"text/html", "text/plain"}
        self.sent.append((index, bundle))
        self.shown[index : index + 1] = [bundle]

    @property
    def html(self) -> str:
        return "".join(bundle["text/html"] for bundle in self.shown)

    @property
    def text(self) -> str:
        return "\n".join(filter(None, (bundle["text/plain"] for bundle in self.shown)))
