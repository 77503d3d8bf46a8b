"""Kernels made by~worker for the tests of the runtime: `void kernel(first, last, int64* args)`."""

from numba import cfunc

from explorer.runtime.device_program.intrinsics import add, load, store


@cfunc("void(int64, int64, int64)")
def note(first, last, args):
    """args: a count, notes, a number. Writes (number, first, last) as the next note."""
    row = load(args + 8) + 24 * add(load(args), 1)
    store(row, load(args + 16))
    store(row + 8, first)
    store(row + 16, last)


@cfunc("void(int64, int64, int64)")
def add_tasks(first, last, args):
    """args: address of x, address of y. y[i] = x[i] + i for each task i, as int64."""
    for i in range(first, last):
        store(load(args + 8) + 8 * i, load(load(args) + 8 * i) + i)


@cfunc("void(int64, int64, int64)")
def work(first, last, args):
    """About a microsecond of arithmetic a task."""
    value = 1
    for i in range((last - first) * 1000):
        value = value ^ (i * value + i)
    if value == 0x123456789:
        store(args, value)
