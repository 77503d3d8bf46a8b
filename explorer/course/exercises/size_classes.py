"""For which lengths to compile, when inputs are padded to the next one."""

from __future__ import annotations

from itertools import combinations
from random import Random
from typing import Any

from explorer.course.exercise import Check, Exercise, require


def cost(lengths: tuple[int, ...], sizes: tuple[int, ...]) -> int:
    """The rows that are computed when each input is padded to the next size."""
    return sum(min(s for s in sizes if s >= n) for n in lengths)


def _least(lengths: tuple[int, ...], count: int) -> int:
    known = sorted(set(lengths))
    rest, last = known[:-1], known[-1]
    picks = combinations(rest, min(count - 1, len(rest)))
    return min(cost(lengths, (*pick, last)) for pick in picks)


def _sound(lengths: tuple[int, ...], count: int, sizes: Any) -> tuple[int, ...]:
    found = tuple(sizes)
    require(len(found) <= count, f"{len(found)} sizes, and {count} are allowed")
    fits = bool(found) and max(found) >= max(lengths)
    require(fits, f"the sizes {sorted(found)} have no room for a length of {max(lengths)}")
    return found


def _given(answer: Any, seed: int) -> None:
    lengths = (1, 2, 3, 9, 10, 30, 31, 32, 100)
    found = _sound(lengths, 4, answer(lengths, 4))
    least = _least(lengths, 4)
    got = cost(lengths, found)
    require(got == least, f"{sorted(found)} computes {got} rows for {lengths}; {least} are enough")


def _random(answer: Any, seed: int) -> None:
    rng = Random(seed)
    for _ in range(20):
        lengths = tuple(rng.randint(1, 40) for _ in range(rng.randint(1, 12)))
        count = rng.randint(1, 4)
        found = _sound(lengths, count, answer(lengths, count))
        got, least = cost(lengths, found), _least(lengths, count)
        require(
            got == least,
            f"for {lengths} and {count} sizes, {sorted(found)} computes {got} rows; "
            f"{least} are enough",
        )


def _long(answer: Any, seed: int) -> None:
    rng = Random(seed + 1)
    lengths = tuple(rng.randint(1, 300) for _ in range(400))
    found = _sound(lengths, 8, answer(lengths, 8))
    step = -(-max(lengths) // 8)
    even = tuple(step * (n + 1) for n in range(8))
    got, most = cost(lengths, found), cost(lengths, even)
    require(got <= most, f"{got} rows, and sizes at even distances compute {most}")


EXERCISE = Exercise(
    name="size_classes",
    chapter="10_dynamic_shapes",
    title="Four compilations for all lengths",
    goal="A compiler without symbolic shapes pads each input to the next of a few lengths "
    "that it was "
    "compiled for. Write `sizes(lengths, count)`: at most `count` lengths for which the "
    "rows that are "
    "computed for these inputs, padding included, are fewest.",
    answer="sizes",
    stub='''\
def sizes(lengths, count):
    """At most `count` lengths to compile for: every input fits into one, with least padding."""
    raise NotImplementedError
''',
    solution='''\
def sizes(lengths, count):
    """At most `count` lengths to compile for: every input fits into one, with least padding."""
    from functools import cache

    known = sorted(set(lengths))
    many = [sum(n <= k for n in lengths) for k in known]

    @cache
    def best(last, left):
        """(rows, sizes) for all inputs up to known[last], of which known[last] is the largest."""
        ways = [(many[last] * known[last], (known[last],))]
        for before in range(last) if left > 1 else ():
            rows, found = best(before, left - 1)
            rows += (many[last] - many[before]) * known[last]
            ways.append((rows, (*found, known[last])))
        return min(ways)

    return best(len(known) - 1, count)[1]
''',
    hints=(
        "One of the sizes is the largest length, or it does not fit.",
        "A size that is no input's length can be made smaller, and nothing gets worse.",
        "The best sizes up to a length, with so many left, need only the best ones up to a "
        "shorter one.",
    ),
    checks=(
        Check("nine lengths, four sizes", 1, _given),
        Check("random lengths, against all choices", 2, _random),
        Check("four hundred inputs", 1, _long, True),
    ),
    exit_question="With symbolic shapes nothing is padded. What does a compiler pay for that?",
)
