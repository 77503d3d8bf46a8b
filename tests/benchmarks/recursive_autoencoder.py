"""A recursive autoencoder over trees of 127 nodes, hidden 512, in turns with NumPy and with the
same recursion followed by Python: `python -m tests.benchmarks.recursive_autoencoder`. Batch 1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import numpy as np

import explorer
import explorer.np as xp
from explorer import tensor
from explorer.grinder import on_host
from explorer.measure.compare import compare
from explorer.rammer import Options as RammerOptions
from explorer.runtime.executable import Executable

Array = np.ndarray


HIDDEN, NODES = 512, 127
RNG = np.random.default_rng(0)
PRODUCT = (RNG.standard_normal((HIDDEN, 2 * HIDDEN)) / 32).astype(np.float32)
BIAS = (RNG.standard_normal(HIDDEN) / 10).astype(np.float32)
INDEX, LINKS = tensor("int64"), tensor("int64", NODES)
ROW, ROWS = tensor("float32", HIDDEN), tensor("float32", NODES, HIDDEN)


@explorer.function(result=ROW)
def enc(node: INDEX, left: LINKS, right: LINKS, leaf: ROWS) -> Any:
    """A node is its leaf, or is made of its two children."""
    if left[node] < 0:
        return leaf[node]
    a, b = enc(left[node], left, right, leaf), enc(right[node], left, right, leaf)
    return xp.tanh(PRODUCT @ xp.concatenate([a, b]) + BIAS)


@explorer.trace
def rae(root: INDEX, left: LINKS, right: LINKS, leaf: ROWS) -> Any:
    """The vector of a tree, from the node that is its root on."""
    return enc(root, left, right, leaf)


def by_numpy(root: int, left: Array, right: Array, leaf: Array) -> Array:
    """The same in NumPy."""
    children = left.tolist(), right.tolist()

    def enc(node: int) -> Array:
        if children[0][node] < 0:
            return np.asarray(leaf[node])
        both = [enc(children[0][node]), enc(children[1][node])]
        return np.asarray(np.tanh(PRODUCT @ np.concatenate(both) + BIAS))

    return enc(root)


def balanced(nodes: int) -> tuple[Array, Array]:
    """The children of each of an odd number of nodes, -1 for a leaf; node 0 is the root."""
    inner = np.arange(nodes // 2)
    links = np.full((2, NODES), -1)
    links[:, : len(inner)] = 2 * inner + 1, 2 * inner + 2
    return links[0], links[1]


def random_tree(nodes: int, seed: int) -> tuple[Array, Array]:
    """The same for a tree that grows at random leaves."""
    rnd, links, leaves = Random(seed), np.full((2, NODES), -1), [0]
    for first in range(1, nodes - 1, 2):
        at = leaves.pop(rnd.randrange(len(leaves)))
        links[:, at] = first, first + 1
        leaves += [first, first + 1]
    return links[0], links[1]


def main() -> None:
    """Print the times of each pair and how they compare."""
    leaf = RNG.standard_normal((NODES, HIDDEN)).astype(np.float32)
    trees = {"balanced": balanced(NODES), "random": random_tree(NODES, 0)}
    for threads in (1, 2):
        chosen = explorer.Options(rammer=RammerOptions(threads=threads))
        compiled = explorer.compile(rae, options=chosen)
        host = Executable(compiled.program, compiled.codes, compiled.device, on_host)
        for name, (left, right) in trees.items():
            feeds = {"root": np.array(0), "left": left, "right": right, "leaf": leaf}
            right_one = partial(by_numpy, 0, left, right, leaf)
            ours = partial(compiled.run, feeds)
            others: dict[str, Callable[[], object]] = {
                "NumPy": right_one,
                "followed by Python": partial(host.run, feeds),
            }
            for run in (compiled.run, host.run):
                (found,) = run(feeds).values()
                np.testing.assert_allclose(found, right_one(), rtol=1e-4, atol=1e-5)
            for other, run in others.items():
                found = compare(ours, run, seconds=4)
                us = f"{found.first.median_us:.0f} and {found.second.median_us:.0f} us"
                print(f"{name}, {threads} threads, against {other}: {us}, {found}")


if __name__ == "__main__":
    main()
