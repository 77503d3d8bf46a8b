"""A wall as PNG bytes, with NumPy and zlib only, for pages without scripts and SVG."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from widgets.draw import theme
from widgets.model.brick_wall import WallRows
from widgets.rammer.brick_wall_picture import blocks_of, lanes_of

WIDTH = 960


def encode_png(pixels: NDArray[np.uint8]) -> bytes:
    """Encode an image of height x width x 3 as a PNG file."""
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


def wall(planned: WallRows, ran: WallRows | None = None, scheme: str = "light") -> bytes:
    """Draw for each unit a thin planned lane over a thick measured one."""
    total = max(planned.total_us, ran.total_us if ran else 0) or 1
    tokens = theme.SCHEMES[scheme]
    count = lanes_of(planned, 2 if ran else 1)
    walls = [_lanes(w, count, total, tokens) for w in (planned, ran) if w]
    thick = (8, 24) if count <= 12 else (2, 3)
    lanes = []
    for lane in range(count):
        for pixels, high in zip(walls, thick):
            lanes.append(np.repeat(pixels[lane][None], high, 0))
            lanes.append(np.full((2, WIDTH, 3), _rgb(tokens["pane"]), np.uint8))
    return encode_png(np.ascontiguousarray(np.concatenate(lanes)))


def _lanes(rows: WallRows, count: int, total: float, tokens: dict[str, str]) -> NDArray[np.uint8]:
    pixels = np.full((count, WIDTH, 3), _rgb(tokens["tint"]), np.uint8)
    colours = [_rgb(tokens[theme.family_token(c.family)]) for c in rows.calls]
    blocks = blocks_of(rows, count)
    left = (blocks.start * (WIDTH / total)).astype(int)
    right = np.maximum((blocks.end * (WIDTH / total)).astype(int), left + 1)
    for lane, a, b, call in zip(blocks.lane, left, right, blocks.call):
        pixels[lane, a : b - 1 if b - a > 3 else b] = colours[call]
    return pixels


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)
