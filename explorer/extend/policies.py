"""Policies of the user by name.

A registered policy stands beside those that ship: in options, on the command line, and among the
choices of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import signature
from types import MappingProxyType
from typing import Any, TypeVar

from explorer import rammer
from explorer.errors import BadOption
from explorer.memory.plan import POLICIES as SHARING
from explorer.passes import policy_call
from explorer.roller.named_policies import POLICIES as TILING
from explorer.welder.options import POLICIES as WELDING

Policy = TypeVar("Policy", bound=Callable[..., Any])
SYSTEMS: Mapping[str, tuple[Mapping[str, Any], int]] = MappingProxyType(
    {
        "rammer": (rammer.POLICIES, 1),
        "roller": (TILING, 4),
        "welder": (WELDING, 2),
        "memory": (SHARING, 3),
    }
)
"""The policies that ship, and how many arguments one takes: facts; kernel, device, environment and
sizes; kernels and facts; bytes, free storages and what is known of symbols.
"""
LONGEST_NAME_CHARACTERS = 80  # chosen


def policy(name: str, *, system: str) -> Callable[[Policy], Policy]:
    """Register a policy of "rammer", "roller", "welder" or "memory" under a name.

    `Options(policy=name)` of that system then selects it. A later one of the same name replaces it,
    as when a notebook's cell is run again; earlier compilations keep the function that they were
    compiled with.

    Raises:
        BadOption: There is no such system, the name is invalid or that of a shipped policy, or the
            policy takes another number of arguments.
    """
    if system not in SYSTEMS:
        systems = ", ".join(SYSTEMS)
        raise BadOption(f"no policies of {system!r} are known", where=name, expected=systems)
    shipped, count = SYSTEMS[system]
    fits = isinstance(name, str) and 0 < len(name) <= LONGEST_NAME_CHARACTERS and name.isprintable()
    if not fits or set(name) & set(".=:,/") or name != name.strip():
        raise BadOption(
            "a policy needs a name: a few printable characters without any of . = : , /",
            where="policy",
            expected=f'@explorer.policy("mine", system="{system}")',
            actual=str(name)[:LONGEST_NAME_CHARACTERS],
        )
    if name in shipped:
        raise BadOption(f"{system} has a policy {name!r} already", where=name, try_="another name")

    def register(run: Policy) -> Policy:
        _check_arguments(run, name, system, count)
        policy_call.register(system, name, run)
        return run

    return register


def _check_arguments(run: Any, name: str, system: str, count: int) -> None:
    """Raise BadOption unless a policy accepts `count` arguments."""
    try:
        signature(run).bind(*[None] * count)
    except ValueError:  # a builtin tells no signature
        pass
    except TypeError as problem:
        raise BadOption(
            f"the policy {name!r} cannot be called as {system} calls one: {problem}",
            where=name,
            expected=f"a function of {count} argument{'s' * (count > 1)}",
        ) from problem


def forget_policy(name: str, *, system: str) -> None:
    """Remove a registered policy; raise BadOption if there is none of that name."""
    if name not in policy_call.by_system(system):
        own = ", ".join(policy_call.by_system(system)) or "none of your own"
        raise BadOption(f"{system} has no policy {name!r} of your own", where=name, expected=own)
    policy_call.forget(system, name)
