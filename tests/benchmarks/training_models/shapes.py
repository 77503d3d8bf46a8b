"""The sizes that the models have in every runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Encoder:
    """Layers of attention."""

    layers: int
    width: int
    heads: int
    words: int
    batch: int = 8
    length: int = 64


BERT = Encoder(layers=2, width=128, heads=2, words=1000)
GPT2 = Encoder(layers=2, width=64, heads=4, words=128)


def blocks_of() -> Iterator[tuple[str, int, int, int]]:
    """The blocks of ResNet-18 with channels before and after, and the stride."""
    before = 64
    for n, after in enumerate((64, 128, 256, 512)):
        yield f"{n}.0", before, after, 1 if n == 0 else 2
        yield f"{n}.1", after, after, 1
        before = after
