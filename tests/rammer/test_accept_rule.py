"""The accept rule of the wavefront policy."""

from explorer.rammer.wavefront import _compare_joining


def test_rounding_does_not_decide_whether_a_wave_joins() -> None:
    """Sums of the same terms in another order differ by 1e-14 of a microsecond."""
    assert _compare_joining(1, 36.917304887203194, 36.91730488720319).refused == ""
    assert _compare_joining(1, 36.92, 36.91).refused.startswith("36.92 us joined, 36.91 us apart")
