"""A wall as PNG bytes, with NumPy and zlib only: what a page shows that runs no scripts and takes
no SVG.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from widgets import theme
from widgets.brick_wall import WallRows

WIDTH = 960


def encoded(pixels: NDArray[np.uint8]) -> bytes:
    """An image of height x width x 3 as a PNG file."""
    high, wide, _ = pixels.shape
    raw = np.zeros((high, 1 + 3 * wide), np.uint8)
    raw[:, 1:] = pixels.reshape(high, -1)
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", struct.pack(">2I5B", wide, high, 8, 2, 0, 0, 0))
        + _chunk(b"IDAT", zlib.compress(raw.tobytes(), 6))
        + _chunk(b"IEND", b"")
    )


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def wall(planned: WallRows, measured: WallRows | None = None, scheme: str = "light") -> bytes:
    """For each unit a thin planned lane over a thick measured one."""
    total = max(planned.total_us, measured.total_us if measured else 0) or 1
    tokens = theme.SCHEMES[scheme]
    lanes = []
    for unit in range(planned.units):
        lanes.append(np.repeat(_lane(planned, unit, total, tokens)[None], 8, 0))
        lanes.append(np.full((2, WIDTH, 3), _rgb(tokens["pane"]), np.uint8))
        if measured:
            lanes.append(np.repeat(_lane(measured, unit, total, tokens)[None], 24, 0))
            lanes.append(np.full((6, WIDTH, 3), _rgb(tokens["pane"]), np.uint8))
    return encoded(np.ascontiguousarray(np.concatenate(lanes)))


def _lane(rows: WallRows, unit: int, total: float, tokens: dict[str, str]) -> NDArray[np.uint8]:
    line = np.full((WIDTH, 3), _rgb(tokens["tint"]), np.uint8)
    colours = [_rgb(tokens[theme.family_token(c.family)]) for c in rows.calls]
    mine = np.flatnonzero(rows.unit == unit)
    left = (rows.start[mine] * (WIDTH / total)).astype(int)
    right = np.maximum((rows.end[mine] * (WIDTH / total)).astype(int), left + 1)
    for a, b, call in zip(left, right, rows.call[mine]):
        line[a : b - 1 if b - a > 3 else b] = colours[call]
    return line


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
