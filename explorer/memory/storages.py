"""Symbolic memory plan: which values share a storage, decided once per program.

Relax (section 4.3): storage goes to values in program order and is freed after their last use.
It is reused only if sizes are provably equal, or by the [s/16, 16 s] rule if they are numbers. An
upper bound of a symbol replaces the symbol; a lower bound proves nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from explorer.ir.dims import Dim, ShapeEnv, product, symbols_of, sympy
from explorer.ir.types import ITEM_BYTES, DType, Tensor
from explorer.memory.plan import Options
from explorer.memory.storage_pool import Free, PolicyPool, Pool

SCOPE = "global"  # there is one kind of memory


@dataclass(frozen=True, slots=True)
class Allocation:
    """A value that needs bytes, and its aliases: an alias class with one owner.

    `block` is the branch arm or loop body that makes it, "" the program itself. `pin_reason` says
    why it shares with no other, "" if it may; a `result` goes into the caller's array.
    """

    name: str
    type: Tensor
    block: str = ""
    pin_reason: str = ""
    result: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramPosition:
    """A position in program order: the allocations that are used there, written ones included.

    `over` are (output, input, refusal). If the refusal is "", the output may take the bytes of the
    input if that dies here.
    """

    uses: tuple[str, ...]
    over: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Token:
    """An alias class in its storage, from its first to its last position, and the reason.

    `bytes` is its true size, `upper_bytes` the size with bounds in place of symbols.
    """

    name: str
    type: Tensor
    bytes: Dim
    upper_bytes: Dim
    first: int
    last: int
    aliases: tuple[str, ...] = ()
    taken: str = "fresh"  # or "reused", "grown", "in place", "kept"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes that tokens of one dtype, block and scope use in turn; `pin_reason`: why only one."""

    name: str
    bytes: Dim
    dtype: DType
    tokens: tuple[Token, ...]
    block: str = ""
    pin_reason: str = ""
    scope: str = SCOPE

    @property
    def static(self) -> bool:
        """Return True if it has the same size in every binding."""
        return isinstance(self.bytes, int)


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """All storages by first use, and the results that have none.

    `bounded` are the symbols that are replaced by their upper bounds.
    """

    storages: tuple[Storage, ...]
    results: tuple[Token, ...] = ()
    bounded: tuple[str, ...] = ()

    @property
    def tokens(self) -> tuple[Token, ...]:
        """All tokens that lie in storages."""
        return tuple(t for s in self.storages for t in s.tokens)

    @property
    def naive(self) -> Dim:
        """Bytes with a storage for every value, in true sizes."""
        return total(t.bytes for t in self.tokens)

    @property
    def naive_upper_bytes(self) -> Dim:
        """Bytes with a storage for every value, with bounds in place of symbols."""
        return total(t.upper_bytes for t in self.tokens)

    @property
    def planned(self) -> Dim:
        """Bytes of all storages."""
        return total(s.bytes for s in self.storages)

    @property
    def result_bytes(self) -> Dim:
        """Bytes of the results that the caller gets."""
        return total(t.bytes for t in self.results)

    @property
    def bounded_bytes(self) -> int | None:
        """Bytes of all storages if no binding changes them, else None."""
        planned = self.planned
        return planned if isinstance(planned, int) else None

    @property
    def unbounded(self) -> tuple[str, ...]:
        """The symbols that need an upper bound for the plan to be static."""
        return tuple(sorted(set[str]().union(*(symbols_of(s.bytes) for s in self.storages))))


def total(sizes: Iterable[Dim]) -> Dim:
    """Return the sum of sizes in normal form: constants together, equal terms together."""
    numbers, terms = 0, []
    for size in sizes:
        if isinstance(size, int):
            numbers += size
        else:
            terms.append(size)
    return sympy.Add(numbers, *terms) if terms else numbers


def plan_storages(
    allocations: Sequence[Allocation],
    steps: Sequence[ProgramPosition],
    env: ShapeEnv,
    options: Options,
) -> StoragePlan:
    """Return the plan of these allocations along these steps."""
    return _Planner(allocations, steps, env, options).plan()


def upper_bytes_of(kind: Tensor, env: ShapeEnv, used: set[str] | None = None) -> Dim:
    """Return the bytes with each bounded dim at its upper bound; `used` collects its symbols."""
    rooms: list[Dim] = [ITEM_BYTES[kind.element]]
    for dim in kind.dims:
        most = env.at_most(dim)
        rooms.append(dim if most is None else max(0, most))
        if most is not None and used is not None:
            used |= symbols_of(dim)
    return product(rooms)


class _Planner:
    """A storage plan being made, position by position."""

    def __init__(
        self,
        allocations: Sequence[Allocation],
        steps: Sequence[ProgramPosition],
        env: ShapeEnv,
        options: Options,
    ) -> None:
        """Start without a storage."""
        self.by_name = {a.name: a for a in allocations}
        self.steps, self.env, self.options = steps, env, options
        self.used: set[str] = set()
        self.pools: dict[tuple[str, str, DType], Pool | PolicyPool] = {}
        self.storages: list[_Open] = []
        self.placed: dict[str, _Open] = {}
        self.results: list[Token] = []
        self.first, self.last = _ends(steps)

    def plan(self) -> StoragePlan:
        allocated: set[str] = set()
        for position, step in enumerate(self.steps):
            for name in step.uses:
                if name not in allocated:
                    allocated.add(name)
                    over = [(of, why) for to, of, why in step.over if to == name]
                    self.make(self.by_name[name], position, over)
            for name in dict.fromkeys(step.uses):
                if self.last[name] == position:
                    self.free(self.by_name[name], position)
        storages = tuple(s.closed() for s in self.storages)
        return StoragePlan(storages, tuple(self.results), tuple(sorted(self.used)))

    def token(self, a: Allocation) -> Token:
        upper_bytes = (
            upper_bytes_of(a.type, self.env, self.used) if self.options.bounds else a.type.bytes
        )
        ends = self.first[a.name], self.last[a.name]
        return Token(a.name, a.type, a.type.bytes, upper_bytes, *ends, a.aliases)

    def make(self, a: Allocation, position: int, over: Sequence[tuple[str, str]]) -> None:
        token = self.token(a)
        if a.result and not self.options.outputs:
            self.results.append(replace(token, taken="kept", reason="a result: the caller's array"))
        elif a.result or a.pin_reason:
            reason = a.pin_reason or "a result, in a buffer of its own"
            self.open(a, token, "kept", reason)
        else:
            refused = ""
            for source, why in over:
                why = why or self.refusal(a, token, source, position)
                if not why:
                    reason = f"in place of {source}, which dies in the call that writes it"
                    self.lay(a, self.placed[source], token, "in place", reason)
                    return
                refused += f"; not in place of {source}: {why}"
            self.take(a, token, refused)

    def refusal(self, a: Allocation, token: Token, source: str, position: int) -> str:
        """Return why a value cannot take over the bytes of an input, or "" if it can."""
        storage, other = self.placed.get(source), self.by_name.get(source)
        if storage is None or other is None:
            return "it has no buffer"
        if other.pin_reason or storage.owner != source:
            return other.pin_reason or "its bytes are taken"
        if not self.options.share or self.last[source] != position:
            return "it is used later"
        if (other.type.element, other.block) != (a.type.element, a.block):
            return "it is of another dtype or block"
        if self.env.equal(token.upper_bytes, storage.bytes) is not True:
            return f"{token.upper_bytes} is not provably its {storage.bytes} bytes"
        return ""

    def take(self, a: Allocation, token: Token, also: str = "") -> None:
        """Take a storage that is proved to fit, else a fresh one; `also` joins the reason."""
        key = (a.block, SCOPE, a.type.element)
        if key not in self.pools:
            self.pools[key] = self.pool()
        pool = self.pools[key]
        choice = pool.take(token.upper_bytes, a.type)
        reason = choice.reason + also
        if choice.free is None:
            self.open(a, token, "fresh", reason)
            return
        storage = self.storages[choice.free.number]
        if choice.grows:
            storage.bytes = token.upper_bytes
        self.lay(a, storage, token, "grown" if choice.grows else "reused", reason)

    def pool(self) -> Pool | PolicyPool:
        """Return a pool that chooses by proof, or by the user's policy."""
        policy = self.options.policy
        if isinstance(policy, str):
            return Pool(self.env, self.options.ordered)
        return PolicyPool(self.env, policy)

    def open(self, a: Allocation, token: Token, taken: str, reason: str) -> None:
        pin_reason = reason if taken == "kept" else ""
        storage = _Open(len(self.storages), token.upper_bytes, a.type.element, a.block, pin_reason)
        self.storages.append(storage)
        self.lay(a, storage, token, taken, reason)

    def lay(self, a: Allocation, storage: _Open, token: Token, taken: str, reason: str) -> None:
        storage.tokens.append(replace(token, taken=taken, reason=reason))
        storage.owner = a.name
        self.placed[a.name] = storage

    def free(self, a: Allocation, position: int) -> None:
        storage = self.placed.get(a.name)
        if (
            storage is None
            or storage.pin_reason
            or storage.owner != a.name
            or not self.options.share
        ):
            return
        pool = self.pools[a.block, SCOPE, a.type.element]
        pool.release(Free(storage.number, storage.bytes, storage.name, a.name, position))


@dataclass(slots=True)
class _Open:
    """A storage while it is planned; `owner` is the value that lies in it now."""

    number: int
    bytes: Dim
    dtype: DType
    block: str
    pin_reason: str
    owner: str = ""
    tokens: list[Token] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"s{self.number}"

    def closed(self) -> Storage:
        return Storage(
            self.name, self.bytes, self.dtype, tuple(self.tokens), self.block, self.pin_reason
        )


def _ends(steps: Sequence[ProgramPosition]) -> tuple[dict[str, int], dict[str, int]]:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for position, step in enumerate(steps):
        for name in step.uses:
            first.setdefault(name, position)
            last[name] = position
    return first, last
