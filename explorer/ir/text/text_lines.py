"""Tokens of a line of a program's text: words, numbers, strings and marks."""

from __future__ import annotations

import json
import re
from typing import NoReturn

from explorer.errors import SnapshotError

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<number>(?:\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+)(?![\w.]))
  | (?P<word>[A-Za-z_][\w.]*(?:/[\w.]+)*)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<mark>\.\.\.|\.\.|->|\*\*|<=|>=|==|!=|[-+*/<>=:;,|()\[\]{}@?\#])
    )""",
    re.VERBOSE | re.ASCII,
)


class Line:
    """The tokens of one line, read from the left."""

    def __init__(self, text: str, number: int) -> None:
        """Split a line into tokens; SnapshotError if it has an unknown character."""
        self.text, self.number, self.at = text, number, 0
        self.tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            match = _TOKEN.match(text, position)
            if match is None or match.lastgroup is None:
                raise SnapshotError(
                    f"line {number} of the program's text: {text[position:][:20]!r}"
                )
            self.tokens.append((match.lastgroup, match.group(match.lastgroup)))
            position = match.end()
        self.tokens.append(("end", ""))

    def fail(self, wanted: str) -> NoReturn:
        """Raise SnapshotError with the expected and the actual token."""
        token = self.tokens[self.at][1] or "the end of the line"
        raise SnapshotError(
            f"line {self.number} of the program's text: expected {wanted}, found {token!r}",
            where=self.text.strip(),
        )

    @property
    def next(self) -> str:
        """The next token's text; empty at the end."""
        return self.tokens[self.at][1]

    @property
    def kind(self) -> str:
        """The next token's kind."""
        return self.tokens[self.at][0]

    def after(self, count: int = 1) -> str:
        """Return the text of a later token."""
        place = self.at + count
        return self.tokens[place][1] if place < len(self.tokens) else ""

    def take(self) -> str:
        """Consume the next token and return its text."""
        text = self.tokens[self.at][1]
        if self.kind != "end":
            self.at += 1
        return text

    def accept(self, mark: str) -> bool:
        """Consume the next token and return True if it is this one."""
        if self.next == mark and self.kind in ("mark", "word"):
            self.at += 1
            return True
        return False

    def expect(self, mark: str) -> None:
        """Consume the next token, which must be this one."""
        if not self.accept(mark):
            self.fail(repr(mark))

    def name(self) -> str:
        """Parse a name, in quotes or not."""
        if self.kind == "word":
            return self.take()
        if self.kind == "string":
            return self.string()
        self.fail("a name")

    def string(self) -> str:
        """Parse a string in quotes."""
        if self.kind != "string":
            self.fail("a string")
        try:
            return str(json.loads(self.take()))
        except json.JSONDecodeError:
            self.fail("a string")

    def integer(self) -> int:
        """Parse an integer, with an optional minus."""
        sign = -1 if self.accept("-") else 1
        if self.kind != "number" or not self.next.isdigit():
            self.fail("a whole number")
        return sign * int(self.take())

    def end(self) -> None:
        """Fail unless all tokens are consumed."""
        if self.kind != "end":
            self.fail("the end of the line")
