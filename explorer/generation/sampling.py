"""The choice of the next token from scores: the best, or drawn from the likeliest."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from explorer.errors import BadOption


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn: temperature 0 takes the best; `top_k` 0 and `top_p` 1 keep all.

    First the `top_k` likeliest are kept (Fan et al. 2018), with those as likely as the last; then
    the fewest of these whose probabilities sum to `top_p` at least (Holtzman et al. 2020).
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Raise BadOption for a value out of range."""
        limits = (
            ("temperature", 0 <= self.temperature < np.inf, "a finite number, 0 or more"),
            ("top_k", type(self.top_k) is int and self.top_k >= 0, "a whole number, 0 or more"),
            ("top_p", 0 < self.top_p <= 1, "a number above 0, up to 1"),
            ("seed", type(self.seed) is int and self.seed >= 0, "a whole number, 0 or more"),
        )
        for name, valid, expected in limits:
            if not valid:
                value = getattr(self, name)
                raise BadOption(f"{name} must be {expected}, found {value!r}", where=name)

    def shares(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each token, float64[batch, vocabulary]; 0 where it is cut."""
        scaled = scores.astype(np.float64) / self.temperature
        if 0 < self.top_k < scaled.shape[1]:
            least = np.partition(scaled, -self.top_k, axis=1)[:, -self.top_k, None]
            scaled = np.where(scaled < least, -np.inf, scaled)
        shares = np.exp(scaled - scaled.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        if self.top_p < 1:
            order = np.argsort(-shares, axis=1, kind="stable")
            best = np.take_along_axis(shares, order, axis=1)
            before = np.cumsum(best, axis=1) - best
            np.put_along_axis(shares, order, np.where(before < self.top_p, best, 0), axis=1)
            shares /= shares.sum(axis=1, keepdims=True)
        return np.asarray(shares)

    def draw(self, scores: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Return the next token of each row, int64[batch], of float32[batch, vocabulary]."""
        if self.temperature == 0:
            return np.asarray(np.argmax(scores, axis=1))
        total = np.cumsum(self.shares(scores), axis=1)
        noise = random.random((len(scores), 1)) * total[:, -1:]
        return np.asarray(np.argmax(total > noise, axis=1))
