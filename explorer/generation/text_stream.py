"""The text of a row while its tokens arrive, and the stop words in it."""

from __future__ import annotations

from collections.abc import Sequence

from explorer.frontends.decoders.vocabulary import Vocabulary

PARTIAL = "\ufffd"  # stands for bytes that are no character yet


class TextStream:
    """The tokens of a row, the text that may be shown, and if a stop word ended it.

    Text that may be the beginning of a stop word is not shown before it is none.
    """

    def __init__(self, vocabulary: Vocabulary | None, stops: Sequence[str]) -> None:
        """Begin without tokens."""
        self.vocabulary, self.stops = vocabulary, tuple(stops)
        self.ids: list[int] = []
        self.text = ""  # all of it
        self.shown = 0  # characters of it
        self.is_stopped = False
        self._read = 0  # tokens whose text is complete
        self._context = 0  # the token from which on they are decoded

    def add(self, token_id: int) -> str:
        """Take a token and return the text that it lets appear."""
        self.ids.append(token_id)
        if self.vocabulary is None:
            return ""
        before = self.vocabulary.decode(self.ids[self._context : self._read])
        after = self.vocabulary.decode(self.ids[self._context :])
        if not after.endswith(PARTIAL):
            self.text += after[len(before) :]
            self._context, self._read = self._read, len(self.ids)
        places = [p for p in (self.text.find(s) for s in self.stops) if p >= 0]
        if places:
            self.text, self.is_stopped = self.text[: min(places)], True
            return self._show(len(self.text))
        return self._show(len(self.text) - self._possible_stop())

    def finish(self) -> str:
        """Return the text that was not shown yet: no further token comes."""
        return self._show(len(self.text))

    def _show(self, end: int) -> str:
        text = self.text[self.shown : end]
        self.shown = max(self.shown, end)
        return text

    def _possible_stop(self) -> int:
        """Return the length of the longest end of the text that begins a stop word."""
        return max(
            (k for s in self.stops for k in range(1, len(s)) if self.text.endswith(s[:k])),
            default=0,
        )
