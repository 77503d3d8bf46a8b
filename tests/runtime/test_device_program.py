"""What each instruction does, with one unit and with several."""

import numpy as np
import pytest

from explorer.runtime.device_program import instructions as isa
from explorer.runtime.workers.aligned_memory import address_of
from explorer.runtime.workers.launch import Launch, Pointer, rows_of
from explorer.runtime.workers.workers import teams
from tests.runtime.hand_kernels import add_tasks, note

STOP = (isa.END, 0, 0, 0, 0)
MEET = (isa.BARRIER, 0, 0, 0, 0)
TRUE, FALSE = np.array([1], bool), np.array([0], bool)


class Notes:
    """A launch whose calls write down that they ran."""

    def __init__(self, units, calls, slots=(), room=100_000, pointers=0, stack=0):
        self.count = np.zeros(1, np.int64)
        self.rows = np.zeros((room, 3), np.int64)
        self.args = np.array(
            [[address_of(self.count), address_of(self.rows), c] for c in range(calls)], np.int64
        )
        self.slots = slots
        made = [rows_of([*rows, STOP]) for rows in units]
        self.launch = Launch(made, calls, len(slots), pointers, stack=stack)
        self.launch.code[:, :, 0] = note.address
        self.launch.code[:, :, 1] = [address_of(a) for a in self.args]
        self.launch.slots[:, : len(slots)] = [address_of(s) for s in slots]

    def run(self):
        self.count[0] = 0
        self.launch.run(teams())
        return [tuple(map(int, row)) for row in self.rows[: int(self.count[0])]]


def run(call, first=0, last=1, publish=0):
    return (isa.RUN, call, first, last, publish)


def test_one_unit_runs_its_rows_in_order():
    notes = Notes([[run(1, 0, 3), run(0, 5, 9)]], 2)
    assert notes.run() == [(1, 0, 3), (0, 5, 9)]


@pytest.mark.parametrize("units", [1, 2, 3, 5])
def test_every_unit_runs_its_own_rows(units):
    notes = Notes([[run(u, u, u + 1)] for u in range(units)], units)
    assert sorted(notes.run()) == [(u, u, u + 1) for u in range(units)]


@pytest.mark.parametrize("units", [2, 3])
def test_a_wait_lets_nothing_start_before_the_awaited_step(units):
    rows = [[] for _ in range(units)]
    for turn in range(200):
        unit = turn % units
        if turn:
            rows[unit].append((isa.WAIT, (turn - 1) % units, (turn - 1) // units + 1, 0, 0))
        rows[unit].append(run(turn, publish=turn // units + 1))
    notes = Notes(rows, 200)
    for _ in range(20):
        assert [call for call, _, _ in notes.run()] == list(range(200))


@pytest.mark.parametrize("units", [1, 2, 4])
def test_nothing_passes_a_barrier_early(units):
    rows = [[r for n in range(50) for r in (run(n), MEET)] for _ in range(units)]
    notes = Notes(rows, 50)
    for _ in range(10):
        assert [call for call, _, _ in notes.run()] == [n for n in range(50) for _ in range(units)]


@pytest.mark.parametrize("trips", [0, 1, 7, 500])
@pytest.mark.parametrize("units", [1, 2])
def test_a_loop_takes_as_many_trips_as_its_scalar_says(units, trips):
    index, limit = np.full(1, -1, np.int64), np.array([trips], np.int64)
    head = [(isa.LET, 0, 0, 0, 0), (isa.LOOP, 0, 1, 7, 0), (isa.STORE, 0, 0, 0, 0), MEET]
    rows = [*head, run(0), (isa.NEXT, 0, 0, 0, 0), (isa.JUMP, 1, 0, 0, 0)]
    notes = Notes([rows] * units, 1, [index, limit])
    assert len(notes.run()) == trips * units
    assert index[0] == trips - 1


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 7, 9])
@pytest.mark.parametrize("units", [1, 2])
def test_a_turn_makes_several_trips_and_the_next_loop_counts_on(units, trips):
    first, second = np.full(1, -1, np.int64), np.full(1, -1, np.int64)
    limit, left = np.array([trips], np.int64), np.full(1, -1, np.int64)
    head = [(isa.LET, 0, 0, 0, 0), (isa.LOOP, 0, 2, 9, 2)]
    count = [(isa.STORE, 0, 0, 0, 0), (isa.STORE, 1, 0, 2, 0), MEET]
    turn = [*head, *count, run(0), run(0), (isa.NEXT, 0, 2, 0, 0), (isa.JUMP, 1, 0, 0, 0)]
    rest = [(isa.LOOP, 0, 2, 14, 0), (isa.STORE, 3, 0, 0, 0), MEET, run(1), (isa.NEXT, 0, 0, 0, 0)]
    rows = [*turn, *rest, (isa.JUMP, 9, 0, 0, 0)]
    rows[9] = (isa.LOOP, 0, 2, len(rows), 0)
    notes = Notes([rows] * units, 2, [first, second, limit, left])
    found = [call for call, _, _ in notes.run()]
    turns = trips // 3
    assert (found.count(0), found.count(1)) == (2 * turns * units, trips % 3 * units)
    assert (first[0], second[0]) == ((3 * turns - 3, 3 * turns - 1) if turns else (-1, -1))
    assert left[0] == (trips - 1 if trips % 3 else -1)


def test_steps_of_a_loop_are_published_again_in_each_trip():
    limit = np.array([300], np.int64)
    head = [(isa.LET, 0, 0, 0, 0), (isa.LOOP, 0, 0, 7, 0)]
    tail = [MEET, (isa.NEXT, 0, 0, 0, 0), (isa.JUMP, 1, 0, 0, 0)]
    first = [run(0, publish=1), (isa.WAIT, 1, 1, 0, 0)]
    second = [(isa.WAIT, 0, 1, 0, 0), run(1, publish=1)]
    notes = Notes([[*head, *first, *tail], [*head, *second, *tail]], 2, [limit])
    assert [call for call, _, _ in notes.run()] == [0, 1] * 300


@pytest.mark.parametrize(
    "scalar, calls", [(TRUE, [0]), (FALSE, [1]), (np.array([7]), [0]), (np.array([0]), [1])]
)
@pytest.mark.parametrize("units", [1, 2])
def test_a_branch_is_taken_by_all_units_alike(units, scalar, calls):
    look = [MEET, (isa.LOOK, 0, 0, scalar.itemsize, 0), MEET, (isa.BRANCH, 0, 6, 0, 0)]
    rows = [*look, run(0), (isa.JUMP, 7, 0, 0, 0), run(1)]
    notes = Notes([rows] * units, 2, [scalar])
    assert [call for call, _, _ in notes.run()] == calls * units


@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 1000, 4096])
@pytest.mark.parametrize("units", [1, 2, 3])
def test_units_copy_each_their_part(units, count):
    source, target = np.random.default_rng(0).integers(0, 255, (2, count + 8)).astype(np.uint8)
    before = target.copy()
    Notes([[(isa.COPY, 0, 1, count, 0)]] * units, 1, [target, source]).run()
    assert (target[:count] == source[:count]).all() and (target[count:] == before[count:]).all()


@pytest.mark.parametrize("units", [1, 2])
def test_pointers_of_two_loops_walk_over_a_table(units):
    """Row (i, j) of a table of 3 by 4 rows of 64 bytes is copied to row (j, i) of another."""
    source = np.random.default_rng(0).integers(0, 255, (3, 4, 64)).astype(np.uint8)
    target = np.zeros((4, 3, 64), np.uint8)
    outer, inner = np.array([3], np.int64), np.array([4], np.int64)
    head = [(isa.LET, 0, 0, 0, 0), (isa.LOOP, 0, 2, 11, 0), (isa.POINT, 2, 4, 0, 0)]
    within = [(isa.LET, 1, 0, 0, 0), (isa.LOOP, 1, 3, 9, 0), (isa.POINT, 0, 2, 1, 0)]
    body = [(isa.COPY, 6, 7, 64, 0), (isa.NEXT, 1, 0, 0, 0), (isa.JUMP, 4, 0, 0, 0)]
    rows = [*head, *within, *body, (isa.NEXT, 0, 0, 0, 0), (isa.JUMP, 1, 0, 0, 0)]
    slots = [target, source, outer, inner, target, source, target, source]
    notes = Notes([rows] * units, 1, slots, pointers=4)
    for unit in range(units):
        for n, row in enumerate(((6, 4, 3 * 64), (7, 5, 64), (4, 0, 64), (5, 1, 4 * 64))):
            notes.launch.point(unit, n, Pointer(-1, *row), unit)
    for _ in range(2):  # what a run leaves does not matter to the next
        target[:] = 0
        notes.run()
        assert (target == source.transpose(1, 0, 2)).all()


@pytest.mark.parametrize("count", [0, 1, 64, 1000])
def test_one_unit_copies_all_where_the_row_says_so(count):
    source, target = np.random.default_rng(0).integers(0, 255, (2, count + 8)).astype(np.uint8)
    before = target.copy()
    Notes([[], [(isa.COPY, 0, 1, count, 1)], []], 1, [target, source]).run()
    assert (target[:count] == source[:count]).all() and (target[count:] == before[count:]).all()


def test_fill_writes_a_byte_or_a_word():
    small, wide = np.full(2, 9, np.uint8), np.full(2, 9, np.int64)
    Notes([[(isa.FILL, 0, 1, 1, 0), (isa.FILL, 1, 8, -3, 0)]], 1, [small, wide]).run()
    assert list(small) == [1, 9] and list(wide) == [-3, 9]


def test_stamps_stand_in_the_order_of_the_rows_and_do_not_overlap():
    notes = Notes([[run(0), run(1), run(0)], [run(1)]], 2)
    stamps = notes.launch.trace(teams(), 100)
    assert [list(unit[:, 0]) for unit in stamps.units] == [[0, 1, 2], [0]]
    for unit in stamps.units:
        times = unit[:, 1:].reshape(-1)
        assert stamps.begin <= times[0] and (np.diff(times) >= 0).all() and times[-1] <= stamps.end


def test_a_loop_that_makes_more_stamps_than_fit_says_how_many():
    limit = np.array([6000], np.int64)
    head = [(isa.LET, 0, 0, 0, 0), (isa.LOOP, 0, 0, 5, 0)]
    rows = [*head, run(0), (isa.NEXT, 0, 0, 0, 0), (isa.JUMP, 1, 0, 0, 0)]
    notes = Notes([rows], 1, [limit])
    stamps = notes.launch.trace(teams(), 100)
    assert len(stamps.units[0]) == 100 and stamps.needed == 6000
    assert len(notes.launch.trace(teams(), 6000).units[0]) == 6000


def test_a_launch_runs_right_after_one_with_more_units():
    x, y = np.arange(1000), np.zeros(1000, np.int64)
    args = np.array([address_of(x), address_of(y)], np.int64)
    for units in (1, 3, 2, 1, 4, 2):
        y[:] = 0
        cuts = [1000 * u // units for u in range(units + 1)]
        rows = [rows_of([run(0, cuts[u], cuts[u + 1]), STOP]) for u in range(units)]
        launch = Launch(rows, 1, 0)
        launch.code[:, :, 0], launch.code[:, :, 1] = add_tasks.address, address_of(args)
        launch.run(teams())
        assert (y == x + np.arange(1000)).all()


def halving(most):
    """f(): runs call 0, then itself as often as register 1 has not reached 2, then call 1."""
    outside = [(isa.LET, 0, -1, 0, 0), (isa.CALL, 0, 3, 0, 2), (isa.JUMP, 13, 0, 0, 0)]
    entry = [run(0), (isa.LET, 1, 0, 0, 0), (isa.DEEPEST, 0, most, 7, 13)]
    # A call at depth `slot 0` goes back at once.
    leaf = [(isa.LOOP, 0, 0, 11, 0), (isa.LOOP, 1, 1, 11, 0), (isa.CALL, 0, 3, 0, 2)]
    again = [(isa.NEXT, 1, 0, 0, 0), (isa.JUMP, 7, 0, 0, 0)]
    back = [run(1), (isa.RETURN, 0, 0, 2, 0)]
    return [*outside, *entry, *leaf, *again, *back, (isa.QUIT, 0, 0, 0, 0), run(2)]


@pytest.mark.parametrize("units", [1, 2])
@pytest.mark.parametrize("depth", [0, 1, 2, 5])
def test_a_call_goes_back_to_its_row_with_the_registers_that_it_had(units, depth):
    limit, twice = np.array([depth], np.int64), np.array([2], np.int64)
    notes = Notes([halving(100)] * units, 3, [limit, twice], stack=2 * (depth + 1))

    def called(level):
        inner = [] if level == depth else called(level + 1) * 2
        return [0, *inner, 1]

    wanted = [*called(0), 2]
    for _ in range(2):
        found = [call for call, _, _ in notes.run()]
        assert sorted(found) == sorted(wanted * units)
        assert units > 1 or found == wanted
        assert notes.launch.fault == 0


@pytest.mark.parametrize("units", [1, 2])
def test_a_call_that_is_too_deep_ends_the_run_and_says_so(units):
    limit, twice = np.array([50], np.int64), np.array([2], np.int64)
    notes = Notes([halving(3)] * units, 3, [limit, twice], stack=8)
    assert [call for call, _, _ in notes.run()] == [0] * (4 * units)
    assert notes.launch.fault == 7
    limit[0] = 2
    assert len(notes.run()) == 15 * units
    assert notes.launch.fault == 0
