"""The predicted effect of moving values by hand."""

from pathlib import Path

import explorer
from tests.tuning.models import mlp
from widgets.welder.judge_moves import judge_moves


def test_a_move_is_judged_at_the_sizes_on_show(tmp_path: Path) -> None:
    c = explorer.compile(mlp(tmp_path), until="rolled")
    moves = [("h", "DRAM")]
    hinted, few = judge_moves(c, moves, c.device), judge_moves(c, moves, c.device, {"batch": 1})
    many = judge_moves(c, moves, c.device, {"batch": 2048})
    assert hinted == few and few.before and few.after and many.before and many.after
    assert many.before.traffic > 100 * few.before.traffic
    assert many.after.traffic > 100 * few.after.traffic
