"""The runtime's own costs are measured, and are small."""

from explorer.runtime.workers.overheads import overheads


def test_every_cost_is_a_time():
    found = overheads()
    assert 0 < found.task_ns < 100_000
    assert 0 <= found.barrier_us < 10_000
    assert 0 < found.launch_us < 100_000
