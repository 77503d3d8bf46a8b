"""Right and wrong answers to the warm-ups of chapter 07."""

LOG_COSH = """\
from explorer.ops.elementwise import call


def log_cosh(site, x, dtype):
    {}
"""
RIGHT: dict[str, dict[str, str]] = {
    "strips": {
        "by slices": (
            "def visited(n, tile):\n"
            "    every = list(range(n))\n"
            "    return [i for start in range(0, n, tile) for i in every[start:start + tile]]\n"
        ),
    },
    "mirror": {
        "two halves in turn": (
            "def mirror(thread, size, own, shared, result):\n"
            "    for chunk, value in enumerate(own):\n"
            "        base = chunk % 2 * size\n"
            "        shared[base + thread] = value\n"
            "        yield\n"
            "        result.append(shared[base + size - 1 - thread])\n"
        ),
        "a barrier before the write": (
            "def mirror(thread, size, own, shared, result):\n"
            "    for value in own:\n"
            "        yield\n"
            "        shared[size - 1 - thread] = value\n"
            "        yield\n"
            "        result.append(shared[thread])\n"
        ),
    },
    "butterfly": {
        "by sets": (
            "sums = [{n} for n in range(8)]\n"
            "butterfly = {}\n"
            "for d in (4, 2, 1):\n"
            "    sums = [sums[n] | sums[n ^ d] for n in range(8)]\n"
            "    butterfly[d] = tuple(sums[6])\n"
        ),
    },
    "log_cosh": {
        "by max": LOG_COSH.format(
            'size = call("max", x, call("neg", x))\n'
            '    both = call("add", call("exp", call("mul", size, -2.0)), 1.0)\n'
            '    return call("add", size, call("log", call("mul", both, 0.5)))'
        ),
    },
}
WRONG: dict[str, dict[str, tuple[str, str]]] = {
    "strips": {
        "the length of the tile": (
            "def visited(n, tile):\n"
            "    starts = range(0, n, tile)\n"
            "    return [i for start in starts for i in range(start, min(n, tile))]\n",
            "elements in tiles of .*: .* are not visited",
        ),
        "whole tiles": (
            "def visited(n, tile):\n"
            "    starts = range(0, n, tile)\n"
            "    return [i for start in starts for i in range(start, start + tile)]\n",
            "elements in tiles of .*: .* do not exist",
        ),
        "to the end": (
            "def visited(n, tile):\n"
            "    return [i for start in range(0, n, tile) for i in range(start, n)]\n",
            "elements in tiles of .* visits, and each element needs one",
        ),
    },
    "mirror": {
        "a barrier at the end alone": (
            "def mirror(thread, size, own, shared, result):\n"
            "    for value in own:\n"
            "        shared[thread] = value\n"
            "        result.append(shared[size - 1 - thread])\n"
            "        yield\n",
            "mirrored they are .*, and the threads have",
        ),
        "some threads wait": (
            "def mirror(thread, size, own, shared, result):\n"
            "    for value in own:\n"
            "        shared[thread] = value\n"
            "        yield\n"
            "        result.append(shared[size - 1 - thread])\n"
            "        if thread < size - 1:\n"
            "            yield\n",
            "has ended, and thread .* waits at a barrier that all threads must reach"
            "|mirrored they are",
        ),
        "no barrier": (
            "def mirror(thread, size, own, shared, result):\n"
            "    for value in own:\n"
            "        shared[thread] = value\n"
            "        result.append(shared[size - 1 - thread])\n",
            "a thread is a generator: it needs a `yield` for each barrier",
        ),
    },
    "butterfly": {
        "the other lane alone": (
            "butterfly = {4: (2, 6), 2: (4, 6), 1: (6, 7)}\n",
            "after the exchange with lane 4, the sum of lane 6 has the elements of 4 lanes, and "
            "not of \\(4, 6\\)",
        ),
        "lanes to the right": (
            "butterfly = {4: (2, 6), 2: (0, 2, 4, 6), 1: (0, 2, 4, 6, 7)}\n",
            "after the exchange with lane 7, the sum of lane 6 has the elements of 8 lanes",
        ),
    },
    "log_cosh": {
        "it overflows": (
            LOG_COSH.format(
                'both = call("add", call("exp", x), call("exp", call("neg", x)))\n'
                '    return call("log", call("mul", both, 0.5, dtype=dtype))'
            ),
            "at x = 300 the loops compute inf",
        ),
        "without log 2": (
            LOG_COSH.format(
                'size = call("abs", x)\n'
                '    small = call("exp", call("mul", size, -2.0, dtype=dtype))\n'
                '    return call("add", size, call("log", call("add", small, 1.0)))'
            ),
            "at x = 0 the loops compute 0.693",
        ),
    },
}
