"""Free storages of which a policy of the user's own says which one a value takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from explorer.ir.shapes.dims import Dim, ShapeEnv
from explorer.ir.types import Tensor
from explorer.passes.pipeline.own_policy import Asked, policy_name
from explorer.passes.pipeline.own_policy import shown as written
from explorer.relax.memory.storage_pool import NONE_FREE, Choice, Free, at_most, freed, text

Choose: TypeAlias = Callable[[Dim, tuple[Free, ...], ShapeEnv], Free | None]


def is_enough(needed: Dim, storage: Dim, env: ShapeEnv) -> bool:
    """Whether a storage has room for so many bytes in every binding, as far as can be proved."""
    return env.equal(needed, storage) is True or at_most(needed, storage, env)


class OwnPool:
    """The free storages of one dtype, block and scope, in the order in which they came back.

    The policy is asked with the bytes that a value needs, these storages, and what is known of the
    symbols; it gives one of them, or None for a fresh one. BadPolicy where it gives anything else,
    or one that is not provably large enough.
    """

    def __init__(self, env: ShapeEnv, policy: Choose) -> None:
        self.env, self.policy = env, policy
        self.free: list[Free] = []

    def give(self, free: Free) -> None:
        """The storage may be taken again."""
        self.free.append(free)

    def take(self, room: Dim, kind: Tensor) -> Choice:
        """The storage that the policy gives, or a fresh one, and why."""
        if not self.free:
            return Choice(None, NONE_FREE)
        name, asked = policy_name(self.policy), Asked("Memory", self.policy, f"{room} bytes")
        with asked.answering():
            found = self.policy(room, tuple(self.free), self.env)
        if found is None:
            return Choice(None, f"{text(kind)} bytes: {name} takes a fresh one")
        if not any(found is free for free in self.free):
            rule = "gave what is no free buffer, and must give one of them, or None"
            raise asked.refused(rule, "one of the free buffers, or None", written(found))
        if not is_enough(room, found.bytes, self.env):
            raise asked.refused(
                f"gave {found.name}, whose {found.bytes} bytes are not provably enough",
                f"at least {room} bytes in every binding",
                f"{found.bytes} bytes",
            )
        self.free = [free for free in self.free if free is not found]
        return Choice(found, f"{freed(found)}; {name} takes its {found.bytes} for {text(kind)}")
