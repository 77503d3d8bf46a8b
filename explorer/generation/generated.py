"""The result of a generation: tokens, text and speed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from explorer.plain_text import counted
from explorer.printed import Printed

Stopped = Literal["tokens", "end", "stop", "cancelled"]


@dataclass(frozen=True, slots=True)
class Token:
    """A new token of row `row`, and the text that it completes; "" while a character is partial."""

    row: int
    id: int
    text: str = ""


@dataclass(frozen=True, slots=True)
class Continuation:
    """A prompt's continuation: tokens, and their text if there is a vocabulary.

    `stopped` says why it ended: so many tokens, the end of the text (which is the last token), a
    stop word (which `text` is without), or the user.
    """

    ids: tuple[int, ...]
    text: str
    stopped: Stopped


@dataclass(frozen=True, repr=False)
class Generated(Printed):
    """Continuations in the order of the prompts, and how long prefill and decoding took.

    `prefilled` counts the prompts' tokens; `steps` are those of decoding, each of all rows. Times
    are of the compiled programs; compiling, sampling and text are not in them.
    """

    rows: tuple[Continuation, ...]
    prefilled: int
    steps: int
    prefill_seconds: float
    decode_seconds: float
    room: int = field(default=0)  # rows of each cache at the end

    @property
    def text(self) -> str:
        """The text of the first row."""
        return self.rows[0].text

    @property
    def ids(self) -> tuple[int, ...]:
        """The tokens of the first row."""
        return self.rows[0].ids

    @property
    def prefill_per_second(self) -> float:
        """Tokens of prompts that were read in a second."""
        return self.prefilled / self.prefill_seconds if self.prefill_seconds else 0.0

    @property
    def tokens_per_second(self) -> float:
        """New tokens of all rows in a second of decoding."""
        if not self.decode_seconds:
            return 0.0
        return self.steps * len(self.rows) / self.decode_seconds

    @property
    def first_line(self) -> str:
        """Counts and speeds."""
        return (
            f"{counted(len(self.rows), 'row')}: {counted(self.prefilled, 'token')} read at "
            f"{self.prefill_per_second:,.0f}/s, {counted(self.steps, 'step')} at "
            f"{self.tokens_per_second:,.1f} tokens/s"
        )

    def __str__(self) -> str:
        """Return counts and speeds, then each row's text or tokens."""
        texts = (row.text or " ".join(map(str, row.ids)) for row in self.rows)
        return "\n".join((self.first_line, *(f"  {text}" for text in texts)))
