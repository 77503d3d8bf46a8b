"""A line of a program's text, cut into words, numbers, strings and marks."""

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
        self.text, self.number, self.at = text, number, 0
        self.tokens: list[tuple[str, str]] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            found = _TOKEN.match(text, position)
            if found is None or found.lastgroup is None:
                raise SnapshotError(
                    f"line {number} of the program's text: {text[position:][:20]!r}"
                )
            self.tokens.append((found.lastgroup, found.group(found.lastgroup)))
            position = found.end()
        self.tokens.append(("end", ""))

    def fail(self, wanted: str) -> NoReturn:
        """Say what was expected here."""
        found = self.tokens[self.at][1] or "the end of the line"
        raise SnapshotError(
            f"line {self.number} of the program's text: expected {wanted}, found {found!r}",
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
        """The text of a later token."""
        place = self.at + count
        return self.tokens[place][1] if place < len(self.tokens) else ""

    def take(self) -> str:
        """The next token, which is then behind."""
        text = self.tokens[self.at][1]
        if self.kind != "end":
            self.at += 1
        return text

    def accept(self, mark: str) -> bool:
        """Whether the next token is this one; if so it is behind."""
        if self.next == mark and self.kind in ("mark", "word"):
            self.at += 1
            return True
        return False

    def expect(self, mark: str) -> None:
        """The next token must be this one."""
        if not self.accept(mark):
            self.fail(repr(mark))

    def name(self) -> str:
        """A name, in quotes or not."""
        if self.kind == "word":
            return self.take()
        if self.kind == "string":
            return self.string()
        self.fail("a name")

    def string(self) -> str:
        """A string in quotes."""
        if self.kind != "string":
            self.fail("a string")
        try:
            return str(json.loads(self.take()))
        except json.JSONDecodeError:
            self.fail("a string")

    def integer(self) -> int:
        """A whole number, maybe with a minus."""
        sign = -1 if self.accept("-") else 1
        if self.kind != "number" or not self.next.isdigit():
            self.fail("a whole number")
        return sign * int(self.take())

    def end(self) -> None:
        """Nothing may follow."""
        if self.kind != "end":
            self.fail("the end of the line")
