"""Properties of tests as kinds of tries: values of a seed for the bodies of the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from explorer.welder import POLICIES
from tests.codegen import test_random_kernels
from tests.cost import test_contraction_form
from tests.frontends.python import test_every_schedule, test_python_control_flow
from tests.memory import test_poison
from tests.ops import test_symbolic_dims
from tests.relax import test_fuse_ops, test_run_time_models, test_workspace
from tests.relax import test_random_programs as test_stages
from tests.runtime import test_executable
from tests.strategies import hand_programs as hand
from tests.strategies import kernel_programs, kernels, layer_programs, operator_programs
from tests.strategies.arrays import program as arrays
from tests.strategies.arrays.statements import statements
from tests.strategies.choices import Choices, generator
from tests.strategies.onnx import symbolic
from tests.strategies.onnx.run_time_chains import chains
from tests.strategies.python_flow import block
from tests.transforms.autodiff import test_random_arrays, test_random_programs
from tests.welder import test_policies

Values = tuple[Any, ...]


def operators(c: Choices, scratch: Path) -> Values:
    one, other = ({s: c.one([0, 1, 2, 3, 5, 7, 11]) for s in "nm"} for _ in range(2))
    steps = c.one([test_stages.STEPS, test_stages.OTHER])
    return operator_programs.programs.make(c), one, other, c.number(0, 99), steps


# By kind: the values, and the tests, or the checks that tests make, that they are given to.
PROPERTIES: dict[str, tuple[Any, ...]] = {
    "operator": (operators, test_stages.keeps_values),
    "symbol": (
        lambda c, scratch: (symbolic.cases.make(c), scratch),
        test_symbolic_dims.means_the_same,
    ),
    "chain": (
        lambda c, _: (chains.make(c),),
        test_run_time_models.test_every_stage_means_the_same,
        test_run_time_models.test_compiled_programs_mean_the_same,
    ),
    "layer": (
        lambda c, _: (c.one(sorted(POLICIES)), layer_programs.programs.make(c)),
        test_policies.test_a_policy_keeps_every_value_of_a_random_program,
        test_policies.test_the_tiles_of_every_group_compute_what_the_group_says,
    ),
    "fusion": (
        lambda c, _: (kernel_programs.programs.make(c), c.one([1, 2, 3, 5])),
        test_fuse_ops.test_a5_08_fusion_preserves_values,
        test_workspace.test_a5_13_lifting_all_that_can_be_lifted_keeps_values,
        test_fuse_ops.test_a5_08_fused_kernels_run_as_machine_code,
    ),
    "storage": (
        lambda c, _: (hand.programs.make(c, c.one([hand.arena, hand.storages])), c.number(0, 99)),
        test_poison.check,
    ),
    "schedule": (
        lambda c, _: (hand.straight_programs.make(c, hand.either), c.number(0, 99)),
        test_executable.test_any_schedule_and_plan_gives_what_the_interpreter_gives,
    ),
    "kernel": (
        lambda c, _: (kernels.cases.make(c),),
        test_random_kernels.test_random_tile_programs_mean_what_their_kernels_mean,
        test_random_kernels.test_random_kernels_run_as_machine_code,
    ),
    "contraction": (
        lambda c, _: (kernels.tiled.make(c, *test_contraction_form.SUMS),),
        test_contraction_form.test_the_model_takes_a_contraction_to_have_the_form_that_it_gets,
        test_contraction_form.test_the_model_counts_the_register_tiles_and_rows_of_the_program,
    ),
    "gradient": (
        lambda c, _: (arrays.programs.make(c), c.chance(0.1)),
        test_random_arrays.agrees_with_differences,
    ),
    "statement": (
        lambda c, _: (statements.make(c, 2), c.number(0, 99), c.chance(0.1)),
        test_random_programs.agrees,
    ),
    "function": (
        lambda c, scratch: (scratch, block.make(c, 2, False)),
        test_python_control_flow.means_what_python_means,
        test_every_schedule.agrees,
    ),
}


@generator
def tried(c: Choices, kind: str, scratch: Path) -> None:
    """Hold the tests of a kind for one value; their errors are raised."""
    draw, *tests = PROPERTIES[kind]
    values = draw(c, scratch)
    for test in tests:
        body = test.hypothesis.inner_test if hasattr(test, "hypothesis") else test
        body(*values)
