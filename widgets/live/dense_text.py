"""Bytes as text of a page in 7 bits a byte of UTF-8; base64 has 6.

Each character below U+0080 stands for 7 bits. Those that HTML or an editor would change stand, with
the 7 bits that follow, as one character of two bytes: U+0400, plus 128 times their place in
`CHANGED`, plus these bits. The number of bytes and a colon precede.
"""

from __future__ import annotations

import numpy as np

CHANGED = (0, 10, 13, 60)  # NUL, both ends of a line, and "<", which may end a script
BITS, PAIR = 7, 0x400


def dense_text(content: bytes) -> str:
    """Return bytes as text that stands in a `<script>` of a UTF-8 page; `packed.js` reads it."""
    bits = np.unpackbits(np.frombuffer(content, np.uint8))
    bits = np.r_[bits, np.zeros(-len(bits) % BITS + BITS, np.uint8)].reshape(-1, BITS)
    groups = np.packbits(bits, axis=1).ravel().astype(np.uint32) >> 1
    taken = np.zeros(len(groups), bool)
    places = np.full(128, -1, np.int64)
    places[list(CHANGED)] = range(len(CHANGED))
    for at in np.flatnonzero(places[groups[:-1]] >= 0).tolist():
        if not taken[at]:
            groups[at] = PAIR + 128 * int(places[groups[at]]) + int(groups[at + 1])
            taken[at + 1] = True
    return f"{len(content)}:{_last(groups[~taken]).astype('<u4').tobytes().decode('utf-32-le')}"


def _last(groups: np.ndarray) -> np.ndarray:
    """Return the groups without the zeros at the end that no byte needs."""
    return groups[:-1] if len(groups) and groups[-1] == 0 else groups
