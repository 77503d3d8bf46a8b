"""`x[i] = y` on traced arrays: NumPy's elements, and a refusal where names would not agree."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import explorer
from explorer import np as xp
from explorer import tensor
from explorer.errors import DtypeError, ShapeError, TraceError
from explorer.process.counters import counters
from tests.examples import examples

SHAPE = (3, 4, 2)


def same(function: Any, *args: Any) -> explorer.Compilation:
    """The traced function gives what Python gives, on one worker and on two."""
    c = explorer.compile(explorer.trace(function), check=True)
    wanted = function(*(np.copy(a) for a in args))
    for found in (c.run(*args), c.run(*args)):
        for a, b in zip(found.values(), wanted if isinstance(wanted, tuple) else (wanted,)):
            assert a.dtype == np.asarray(b).dtype
            np.testing.assert_array_equal(a, b)
    return c


def places(extent: int) -> st.SearchStrategy[Any]:
    number = st.integers(-extent, extent - 1)
    bound = st.none() | st.integers(-extent - 1, extent + 1)
    cut = st.builds(slice, bound, bound, st.sampled_from([None, 1, 2, -1]))
    several = st.lists(number, min_size=1, max_size=3).map(np.array)
    return number | cut | several | number.map(lambda i: ("run", i))


@st.composite
def assignments(draw: st.DrawFn) -> Any:
    """Some items of an index, and the part of the shape of what they select that a value has."""
    count = draw(st.integers(0, 3))
    items = [draw(places(n)) for n in SHAPE[:count]]
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, count)), Ellipsis)
    plain = tuple(i[1] if isinstance(i, tuple) else i for i in items)
    try:
        part = np.empty(SHAPE)[plain].shape
    except IndexError:
        part = None
    return items, part, draw(st.integers(0, 3)), draw(st.booleans())


@pytest.mark.exhaustive
@settings(max_examples=examples(40, few=15))
@given(st.lists(assignments(), min_size=3, max_size=3))
def test_whatever_index_numpy_takes_changes_what_it_changes_there(cases: Any) -> None:
    cases = [(i, p, d, o) for i, p, d, o in cases if p is not None]

    def function(x, at):
        x = x.copy()
        for items, part, drop, ones in cases:
            index = tuple(at[i[1] % 8] + i[1] if isinstance(i, tuple) else i for i in items)
            shape = part[drop:] if not ones else tuple(1 for _ in part[drop:])
            count = int(np.prod(shape))
            x[index] = np.arange(count, dtype="float32").reshape(shape) * 2 + len(items)
        return x

    traced = explorer.trace(annotated(function, tensor("float32", *SHAPE), tensor("int64", 8)))
    x = np.random.default_rng(1).standard_normal(SHAPE).astype("float32")
    at = np.zeros(8, "int64")  # what only a run knows; `at[..] + i` is i
    (found,) = explorer.compile(traced).run(x, at).values()
    np.testing.assert_array_equal(found, function(x, at))


def annotated(function: Any, *types: Any) -> Any:
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    function.__annotations__ = dict(zip(names, types, strict=True))
    return function


def filled(x: tensor("float32", "n", 4), k: tensor("int64")) -> Any:
    out = np.zeros((16, 4), "float32")
    for i in range(k):
        out[i] = x[i] * 2
        if x[i].sum() > 0:
            out[i, 1] += 1
        else:
            out[i, 2:4] = -1
    return out


@pytest.mark.parametrize("k", [0, 1, 7])
def test_a_loop_fills_an_array_that_it_made_inside_the_program(k: int) -> None:
    before = counters.interpreted_kernels
    x = np.random.default_rng(k).standard_normal((9, 4)).astype("float32")
    c = same(filled, x, np.int64(k))
    assert c.program.decisions.tasks.level == "device"
    assert counters.interpreted_kernels == before


def sieve(n: tensor("int64")) -> Any:
    is_prime = np.ones(50, bool)
    is_prime[:2] = False
    i = n * 0 + 2
    while i * i < n:
        if is_prime[i]:
            j = i * i
            while j < n:
                is_prime[j] = False
                j += i
        i += 1
    return is_prime


def test_loops_and_branches_within_each_other_change_one_array() -> None:
    (found,) = explorer.compile(explorer.trace(sieve)).run(np.int64(50)).values()
    assert list(np.flatnonzero(found)) == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]


def two_names(x: tensor("float32", 4)) -> Any:
    y = x * 2
    z = y
    z[1] = 5
    a = np.zeros(4, "float32")
    b = a
    a[2] = x[0]
    return y + b


def test_an_array_under_two_names_is_one() -> None:
    same(two_names, np.arange(4, dtype="float32"))


def sorted_by_exchanges(x: tensor("float32", 7), k: tensor("int64")) -> Any:
    y, seen = x * 1, np.zeros(50, "int64")
    count = k * 0
    for _last in range(k):
        for i in range(6):
            if y[i] > y[i + 1]:
                y[i], y[i + 1] = y[i + 1], y[i]
                seen[count], count = i, count + 1
    return y, seen, count


def test_several_elements_change_at_once() -> None:
    same(sorted_by_exchanges, np.array([3, 1, 2, 7, 6, 5, 4], "float32"), np.int64(7))


def lists(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    layers = [np.zeros((3, 4), "float32"), x.reshape(1, 4) * 2]
    again, named = layers, {"y": x * 1}
    for i in range(3):
        if x[0] > i:
            layers[0][i] = x
            named["y"][i] = 7
        else:
            named["y"] = x * 3
    for i in range(k):
        layers[1][0, i] += 1
        layers[0] = layers[0] + 1
        if layers[0].sum() > 20:
            layers[0][2] = layers[1][0]
    return again[0], again[1], named["y"]


def test_lists_of_arrays_keep_their_names() -> None:
    for k in (0, 1, 3):
        same(lists, np.array([1.5, 2, 3, 4], "float32"), np.int64(k))


def copies(x: tensor("float32", 4, 4), t: tensor("int64")) -> Any:
    y = x.astype("float32")
    row = y[0].copy()
    plus = +y
    number = y[1, 1]
    y[0] = 7
    y[t, 1] = 3
    return y, row, plus, number, x


def test_what_numpy_copies_is_not_changed() -> None:
    same(copies, np.arange(16, dtype="float32").reshape(4, 4), np.int64(1))


def changed_when_it_is_another(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    a = x * 1
    c = a
    if k > 0:
        c = c * 1
        c[0] = 5
    return a, c


def exchanged(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    a, c = x * 1, x * 2
    for i in range(k):
        if i > 1:
            c, a = a, c
        c[0] = i
        a[1] = c[0]
    c[2] = 5
    return a, c


@pytest.mark.parametrize("function", [changed_when_it_is_another, exchanged])
@pytest.mark.parametrize("k", [0, 1, 4])
def test_what_is_another_array_on_every_way_may_be_read(function: Any, k: int) -> None:
    same(function, np.arange(4, dtype="float32"), np.int64(k))


def old_name(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    y = x * 2
    z = y
    if k > 0:
        y[0] = 1
    return z


def old_name_of_a_loop(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    y = x * 2
    z = y
    for i in range(k):
        y[i] = 1
    return y, z


def of_a_name(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    several = {"x": "a word"}
    if k > 0:
        several["x"] = x + 1
    return x


def handed_on_by_a_branch(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    a = x * 1
    c = a
    if k > 0:
        c = c * 2
    c[0] = 5
    return a


def handed_on_by_a_loop(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    a = x * 1
    c = a
    for _ in range(k):
        c = c * 2
    c[0] = 5
    return a


def chosen(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    a, b = x * 1, x * 2
    c = a if k > 0 else b
    c[0] = 5
    return b


def chosen_before_the_change(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    a = x * 1
    b = a if k > 1 else x * 2
    a[0] = 5
    return b


def view_handed_on(x: tensor("float32", 4, 4), k: tensor("int64")) -> Any:
    a = x * 1
    c = x[0] * 2
    if k > 1:
        c = a[1]
    c[0] = 3
    return a


def one_array_in_a_branch(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    a = x * 1
    if k > 1:
        b = c = a * 2
    else:
        b, c = a * 3, a * 4
    c[0] = 3
    return b


def two_names_in_a_loop(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    a = x * 1
    c = a
    for i in range(k):
        c[0] = i
        a = a + 1
    return a


def read_in_a_loop(x: tensor("float32", 4), k: tensor("int64")) -> Any:
    a, s = x * 1, x * 0
    c = a
    for i in range(k):
        c[0] = i
        s = s + a
    return s


def old_view(x: tensor("float32", 4, 4)) -> Any:
    y = x * 2
    row = y[0]
    y[0, 0] = 1
    return row


def old_view_in_a_branch(x: tensor("float32", 4, 4), k: tensor("int64")) -> Any:
    y = x * 2
    row = y[0]
    if k > 0:
        y[0, 0] = 1
        y[1] = row
    return y


def into_a_view(x: tensor("float32", 4, 4)) -> Any:
    y = x * 2
    y.reshape(16)[3] = 1
    return y


def rows_that_change(x: tensor("float32", "n", 4)) -> Any:
    y = x * 2
    for row in y:
        y[1] = row
    return y


def inside(x: tensor("float32", 4)) -> Any:
    y = x * 2

    def body(i, z):
        y[0] = 1
        return i + 1, z

    return explorer.while_loop(lambda i, z: i < 3, body, 0, y)[1]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (old_name, r"elements were changed by line \d+, y\[0\] = 1.*copy"),
        (old_name_of_a_loop, r"changed by line \d+, y\[i\] = 1"),
        (handed_on_by_a_branch, r"changed by line \d+, c\[0\] = 5"),
        (handed_on_by_a_loop, r"changed by line \d+, c\[0\] = 5"),
        (chosen, r"changed by line \d+, c\[0\] = 5"),
        (
            chosen_before_the_change,
            r"possible alias, decided at run time, of an array .* a\[0\] = 5",
        ),
        (view_handed_on, r"changed by line \d+, c\[0\] = 3"),
        (one_array_in_a_branch, r"changed by line \d+, c\[0\] = 3"),
        (two_names_in_a_loop, r"changed by line \d+, c\[0\] = i"),
        (read_in_a_loop, r"changed by line \d+, c\[0\] = i"),
        (of_a_name, "change of elements of several, which is a dict"),
        (old_view, r"a view of an array whose elements were changed by line \d+, y\[0, 0\] = 1"),
        (old_view_in_a_branch, r"changed by line \d+, y\[0, 0\] = 1"),
        (into_a_view, "is a view, and NumPy would change its base array"),
        (rows_that_change, "change of elements of y, the array it iterates over"),
        (inside, "an array of the enclosing function"),
    ],
)
def test_what_numpy_would_see_under_another_name_is_refused(function: Any, words: str) -> None:
    with pytest.raises(TraceError, match=words):
        explorer.compile(explorer.trace(function))


@pytest.mark.parametrize(
    ("index", "value"),
    [(4, 1), (slice(0, 2), np.zeros(3)), (0, np.zeros((2, 4))), ((0, 0, 0), 1)],
    ids=str,
)
def test_what_does_not_fit_is_refused_with_its_line(index: Any, value: Any) -> None:
    def function(x: tensor("float32", 4, 4)) -> Any:
        x = x * 1
        x[index] = value
        return x

    with pytest.raises(ShapeError, match=r"test_changed_elements.py:\d+"):
        explorer.compile(explorer.trace(function))


COPIES = {
    "repeat": lambda x: xp.repeat(x, 2, axis=0),
    "tile": lambda x: xp.tile(x, (2, 1)),
    "take": lambda x: xp.take(x, 1, axis=0),
    "rows": lambda x: x[[0, 1]],
    "mean": lambda x: x.mean(axis=0),
    "astype": lambda x: x.astype("float32"),
    "array": lambda x: xp.array(x),
    "flatten": lambda x: x.flatten(),
    "einsum": lambda x: xp.einsum("ij,jk->ik", x, x),
}
SAME = {
    "asarray": lambda x: xp.asarray(x),
    "astype": lambda x: x.astype("float32", copy=False),
    "whole": lambda x: x[:],
}
VIEWS = {
    "einsum": lambda x: xp.einsum("ij->ji", x),
    "broadcast": lambda x: xp.broadcast_arrays(x[:1], x)[0],
    "split": lambda x: xp.split(x, 2)[1],
    "flip": lambda x: xp.flip(x, 0),
    "transpose": lambda x: x.T,
}


@pytest.mark.parametrize("name", [*COPIES, *(f"same {n}" for n in SAME)])
def test_what_numpy_copies_and_what_it_gives_as_it_is(name: str) -> None:
    make = SAME[name.removeprefix("same ")] if name.startswith("same ") else COPIES[name]

    def both(x: tensor("float32", 4, 4)) -> Any:
        a, b = x * 1, x * 2
        of_a, of_b = make(a), make(b)
        a[0], of_b[0] = 7, 5
        return a, of_a, b, of_b

    x = np.random.default_rng(2).standard_normal((4, 4)).astype("float32")
    found = explorer.compile(explorer.trace(both)).run(x).values()
    for a, b in zip(found, both(x), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", VIEWS)
def test_views_are_neither_changed_nor_read_when_they_are_old(name: str) -> None:
    def changed(x: tensor("float32", 4, 4)) -> Any:
        y = VIEWS[name](x * 1)
        y[0] = 1
        return y

    def old(x: tensor("float32", 4, 4)) -> Any:
        y = x * 1
        view = VIEWS[name](y)
        y[0] = 1
        return view

    for function in (changed, old):
        with pytest.raises(TraceError, match="view"):
            explorer.compile(explorer.trace(function))


def test_what_a_run_places_outside_goes_nowhere() -> None:
    @explorer.trace
    def function(x: tensor("float32", 4), i: tensor("int64")) -> Any:
        x = x * 1
        x[i] = 9
        x[i : i + 2] = xp.asarray(np.array([7, 8], "float32"))
        return x

    c = explorer.compile(function, check=True)
    for i, wanted in ((4, [0, 1, 2, 3]), (3, [0, 1, 2, 7]), (-9, [0, 1, 2, 3]), (2, [0, 1, 7, 8])):
        (found,) = c.run(np.arange(4, dtype="float32"), np.int64(i)).values()
        np.testing.assert_array_equal(found, wanted)


def test_an_operator_and_an_assignment_in_one_change_the_array_under_all_names() -> None:
    def function(x: tensor("float32", 4), k: tensor("int64")) -> Any:
        c = x * 2
        d = c
        d += 5
        row = (x * 1)[1:3]
        row *= 3
        parts = [x * 1, x + 1]
        parts[0] -= x
        parts[0][1] /= 2
        n = k + 0  # a number of NumPy, where k may be an array without dims
        n += 1
        for _ in range(k):
            c += x
            n *= 2
        if n > 5:
            c *= 2
        else:
            c -= 1
        return c, row, parts[0], n

    for k in (0, 1, 3):
        same(function, np.arange(4, dtype="float32"), np.int64(k))


def test_a_loop_that_reads_what_it_changes_under_another_name_is_refused() -> None:
    """What the first trip reads is right, and what the next ones do is not."""

    def every(x: tensor("float32", 4), k: tensor("int64")) -> Any:
        c = x * 2
        d = c
        for _ in range(k):
            c += d
        return c

    def element(x: tensor("float32", 4), k: tensor("int64")) -> Any:
        c = x * 2
        d = c
        while k > 0:
            c[0] = c[0] + d[1]
            k = k - 1
        return c

    for function in (every, element):
        with pytest.raises(TraceError, match="under another name"):
            explorer.compile(explorer.trace(function))

    def copies(x: tensor("float32", 4), k: tensor("int64")) -> Any:
        c = x * 2
        d = c.copy()
        for t in range(k):
            y = d.copy()
            y[t] = c[0]
            c += d
            c[1] = y[0] + d[1]
        return c, d

    same(copies, np.arange(4, dtype="float32"), np.int64(3))


def test_what_such_a_change_does_not_fit_is_refused_as_numpy_does() -> None:
    def wide(x: tensor("float32", 4)) -> Any:
        x = x * 1
        x += xp.ones((3, 4), "float32")
        return x

    def whole(x: tensor("float32", 4)) -> Any:
        x = xp.astype(x, "int64")
        x /= 2
        return x

    with pytest.raises(ShapeError, match="does not fit in"):
        explorer.compile(explorer.trace(wide))
    with pytest.raises(DtypeError, match="do not become"):
        explorer.compile(explorer.trace(whole))


def test_a_change_is_seen_behind_a_branch_that_no_name_outlives() -> None:
    def element(x: tensor("float32", 4), k: tensor("int64")) -> Any:
        c = x * 2
        if k > 0:
            d = c
            d[0] = 5
        return c

    def every(x: tensor("float32", 4), k: tensor("int64")) -> Any:
        c = x * 2
        if k > 0:
            d = c
            d += 5
        return c

    for function in (element, every):
        with pytest.raises(TraceError, match="elements were changed"):
            explorer.compile(explorer.trace(function))

    def own(x: tensor("float32", 4), k: tensor("int64")) -> Any:
        if k > 0:
            d = x + 1
            d[0] = 5
        return x * 2

    same(own, np.ones(4, "float32"), np.int64(1))
