"""Thread blocks of kernel calls: all that a wall may take, and those set by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from explorer.devices.model import Device
from explorer.errors import BadOption
from explorer.ir.calls import KernelCall
from explorer.ir.decisions.candidate import Candidate
from explorer.ir.decisions.tiling import Tiling, TilingDecision, thread_block
from explorer.ir.dims import Sizes
from explorer.ir.kernel import Kernel
from explorer.ir.program import Program
from explorer.ir.tile_rules import as_integer
from explorer.passes.policy_call import PolicyCall
from explorer.roller.blocks.candidates import (
    block_candidates,
    block_refusal,
    malformed_block,
    weigh_block,
)
from explorer.roller.blocks.gpu_candidates import has_cold_constants
from explorer.roller.tile_order import REFUSED_CANDIDATES
from explorer.roller.transform import Options
from explorer.roller.validate_policy import Rules, validate_candidates


class BlockTiler:
    """Tiler of the calls whose tasks are thread blocks, under the hints."""

    def __init__(self, program: Program, device: Device, options: Options) -> None:
        """Prepare the blocks set by hand."""
        self.program, self.device, self.options = program, device, options
        self.pinned = dict(options.pinned)
        self.cold = has_cold_constants(program, device)
        self.decided: list[TilingDecision] = []

    def __call__(self, call: KernelCall, name: str) -> KernelCall:
        """Return a call in normal form with its thread block, if it has a tile program for one."""
        device, kernel, sizes = self.device, call.kernel, self.program.env.hints
        by_hand = self.pinned.get(name)
        if by_hand is not None and as_integer(by_hand.threads) == 0:
            what = f"{name} runs as thread blocks on {device.name}, and its tiling has no threads"
            raise BadOption(what, where=name, try_="a thread_block, or a processor")
        candidates, weighed = self._candidates(kernel, name)
        if by_hand is not None:
            mine = weigh_block(kernel, by_hand, device, sizes, self.cold)
            if mine.refused:
                why = f"the thread block of {name} is not legal: {mine.refused}"
                raise BadOption(why, where=name)
            candidates = (mine, *(c for c in candidates if c.value != mine.value))
        if not candidates:
            return replace(call, tiling=None, efficient=None)
        chosen = candidates[0].value
        pinned = by_hand is not None
        is_weighed = weighed and not pinned
        self.decided.append(TilingDecision(name, chosen, candidates, pinned, weighed=is_weighed))
        return replace(call, tiling=chosen, efficient=None)

    def _candidates(self, kernel: Kernel, name: str) -> tuple[tuple[Candidate[Tiling], ...], bool]:
        """Return the candidates, and True if they were weighed here.

        Raises:
            BadPolicy: a user's policy breaks a rule.
        """
        env, policy = self.program.env, self.options.policy
        candidates = block_candidates(kernel, self.device, env.hints, self.cold)
        if isinstance(policy, str) or not candidates:
            return candidates, True
        policy_call = PolicyCall("Roller", policy, f"the kernel {name!r}")
        rules = of_blocks(kernel, self.device, env.hints)
        most = self.options.top_k + REFUSED_CANDIDATES
        ask = partial(policy, kernel, self.device, env, env.hints)
        return validate_candidates(policy_call, ask, rules, most), False

    @property
    def decisions(self) -> tuple[TilingDecision, ...]:
        """The decisions so far, in the order of the calls."""
        return tuple(self.decided)


def of_blocks(kernel: Kernel, device: Device, sizes: Sizes) -> Rules:
    """Return the rules for thread blocks."""
    return Rules(
        "thread block",
        thread_block(),
        malformed_block,
        lambda b: block_refusal(kernel, b, device, sizes),
        "explorer.roller.blocks.candidates.weigh_block",
    )
