"""Pool of free storages in which the user's policy chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from explorer.ir.shapes.dims import Dim, ShapeEnv
from explorer.ir.types import Tensor
from explorer.passes.pipeline.policy_call import PolicyCall, policy_name
from explorer.passes.pipeline.policy_call import shown as written
from explorer.relax.memory.storage_pool import NONE_FREE, Free, StorageChoice, at_most, freed, text

Choose: TypeAlias = Callable[[Dim, tuple[Free, ...], ShapeEnv], Free | None]


def is_enough(needed: Dim, storage: Dim, env: ShapeEnv) -> bool:
    """Return True if a storage is provably large enough in every binding."""
    return env.equal(needed, storage) is True or at_most(needed, storage, env)


class PolicyPool:
    """The free storages of one dtype, block and scope, in the order in which they were freed.

    The policy gets the bytes that a value needs, these storages, and the bounds of the symbols. It
    returns one of them, or None for a fresh one. BadPolicy is raised if it returns anything else,
    or one that is not provably large enough.
    """

    def __init__(self, env: ShapeEnv, policy: Choose) -> None:
        """Start without a free storage."""
        self.env, self.policy = env, policy
        self.free: list[Free] = []

    def release(self, free: Free) -> None:
        """Free a storage."""
        self.free.append(free)

    def take(self, needed: Dim, kind: Tensor) -> StorageChoice:
        """Return the storage that the policy chooses, or a fresh one, and the reason."""
        if not self.free:
            return StorageChoice(None, NONE_FREE)
        name, policy_call = (
            policy_name(self.policy),
            PolicyCall("Memory", self.policy, f"{needed} bytes"),
        )
        with policy_call.guarding():
            storage = self.policy(needed, tuple(self.free), self.env)
        if storage is None:
            return StorageChoice(None, f"{text(kind)} bytes: {name} takes a fresh one")
        if not any(storage is free for free in self.free):
            rule = "returned an object that is not a free buffer"
            raise policy_call.refused(rule, "one of the free buffers, or None", written(storage))
        if not is_enough(needed, storage.bytes, self.env):
            raise policy_call.refused(
                f"returned {storage.name}, whose {storage.bytes} bytes are not provably enough",
                f"at least {needed} bytes in every binding",
                f"{storage.bytes} bytes",
            )
        self.free = [free for free in self.free if free is not storage]
        return StorageChoice(
            storage, f"{freed(storage)}; {name} takes its {storage.bytes} for {text(kind)}"
        )
