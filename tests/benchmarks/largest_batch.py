"""The largest batch whose steps take no more than a budget, by measuring few of them."""

from __future__ import annotations

from collections.abc import Callable

TRIES = 10
CLOSE = 0.01  # of a batch, between one that fits and one that does not

Found = tuple[int, int]  # a batch and its bytes


def largest_batch(
    measure: Callable[[int], int], budget: int, first: int
) -> tuple[Found | None, Found | None]:
    """The largest batch that was measured to fit, and the smallest that was not; None where there
    is none. A line through both says what is measured next, until they are neighbours or close.

    Bytes are taken to grow with the batch.
    """
    known = {batch: measure(batch) for batch in sorted({max(1, first // 2), max(2, first)})}
    for _ in range(TRIES):
        fits, more = _ends(known, budget)
        if fits and more and more[0] - fits[0] <= max(1, CLOSE * fits[0]):
            break
        if not fits and more and more[0] == 1:
            break
        known[guess] = measure(guess := _next(known, budget))
    return _ends(known, budget)


def _ends(known: dict[int, int], budget: int) -> tuple[Found | None, Found | None]:
    fits = [pair for pair in known.items() if pair[1] <= budget]
    more = [pair for pair in known.items() if pair[1] > budget]
    return max(fits, default=None), min(more, default=None)


def _next(known: dict[int, int], budget: int) -> int:
    """Where the line through the nearest two crosses the budget; a little beyond it on the side
    that is not known yet, or is known from far away only.
    """
    fits, more = _ends(known, budget)
    pairs = sorted(known.items())
    if fits and more:
        if len(known) % 3 == 2:  # bytes that grow in stairs are no line
            return (fits[0] + more[0]) // 2
        edge = max(1, int(CLOSE * fits[0]))
        guess = _crossing(fits, more, budget)
        if guess - fits[0] <= edge:
            return min(fits[0] + edge, more[0] - 1)
        return max(more[0] - edge if more[0] - guess <= edge else guess, fits[0] + 1)
    if fits:
        return max(fits[0] + 1, int((1 + CLOSE) * _crossing(*pairs[-2:], budget)))
    return max(1, min(pairs[0][0] - 1, int((1 - CLOSE) * _crossing(*pairs[:2], budget))))


def _crossing(low: Found, high: Found, budget: int) -> int:
    each = max(1e-9, (high[1] - low[1]) / (high[0] - low[0]))
    return low[0] + min(int((budget - low[1]) / each), 7 * high[0])  # not much beyond what is known
