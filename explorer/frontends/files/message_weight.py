"""Estimate of a parsed protobuf message's memory from its bytes alone.

Two bytes of a file can become a message of a hundred bytes, or a number of eight. So a file of a
few megabytes may exhaust memory. Numbers and short fields are counted at their worst case, the long
strings and bytes of ordinary models at their length.
"""

from __future__ import annotations

from explorer.budget import budget, check_room
from explorer.errors import TooLarge
from explorer.frontends.files.plain_file import PlainFile
from explorer.frontends.files.wire import LENGTH, Field, fields

SMALL_TIMES = 64  # an empty node is two bytes in a file, and more than a hundred in memory
LONG_BYTES = 4096  # a message from this length on is examined field by field
MOST_FIELDS = 1 << 21  # of one file; the largest models have a tenth of it
DEEPEST = 100  # nesting of messages, the parser's own limit

# Nested messages that may be long, and long fields with the number of copies of their bytes in
# memory: in the parsed message, and as an array.
INNER = {
    "model": {7: "graph", 25: "function"},
    "graph": {1: "node", 5: "tensor"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph"},
}
LEAVES = {
    "node": {6: 2},
    "attribute": {4: 3, 7: 12, 8: 24},
    "tensor": {4: 16, 9: 4, 10: 8, 12: 2},
}


class MessageWeight:
    """The memory estimate of one file; raises TooLarge once it exceeds the budget."""

    def __init__(self, file: PlainFile) -> None:
        """Start at 0 bytes."""
        self._file, self._bytes, self._fields = file, 0, 0
        self._most = budget()

    def skip(self) -> None:
        """Count a field that is not parsed; their number is limited too."""
        self._fields += 1
        if self._fields > MOST_FIELDS:
            raise TooLarge(
                f"{self._file.name} holds more than {MOST_FIELDS} fields",
                where=self._file.name,
                expected=f"at most {MOST_FIELDS}",
                try_="a model without comments, metadata and fields that ONNX does not know",
            )

    def add(self, message: str, field: Field, depth: int = 0) -> None:
        """Count a field of a message of this kind that will be parsed."""
        self.skip()
        length = field.last - field.start
        inner = INNER.get(message, {}).get(field.number)
        if field.kind == LENGTH and length >= LONG_BYTES and inner and depth < DEEPEST:
            for part in fields(self._file, field.first, field.last):
                self.add(inner, part, depth + 1)
            return
        leaf = LEAVES.get(message, {}).get(field.number) if length >= LONG_BYTES else None
        self._bytes += length * (leaf or SMALL_TIMES)
        if self._bytes > self._most:
            what = f"{self._file.name}, without its large tensors,"
            check_room(self._bytes, what, self._file.name)
