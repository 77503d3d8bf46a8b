"""The memory plan with symbols in it: which values share a storage, decided once per program.

Relax (section 4.3): storage goes to values in program order and comes back after their last use;
it is taken again only where sizes are provably equal, or by the [s/16, 16 s] rule where they are
numbers. An upper bound of a symbol takes the symbol's place; a lower bound proves nothing here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from explorer.ir.shapes.algebra import sympy
from explorer.ir.shapes.dims import Dim, ShapeEnv, product, symbols_of
from explorer.ir.types import ITEM_BYTES, DType, Tensor
from explorer.relax.memory.own_choice import OwnPool
from explorer.relax.memory.plan import Options
from explorer.relax.memory.storage_pool import Free, Pool

SCOPE = "global"  # all memory is of one kind here


@dataclass(frozen=True, slots=True)
class Allocation:
    """A value that needs bytes, and the values that lie in them: an alias class with one owner.

    `block` is the branch arm or loop body that makes it, "" the program itself. `kept` says why it
    shares with nothing, "" where it may; a `result` goes into the caller's array.
    """

    name: str
    type: Tensor
    block: str = ""
    kept: str = ""
    result: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A position in program order: the allocations that are used there, written ones included.

    `over` are (output, input, why not): where the last is "", the output may take the bytes of the
    input if that dies here.
    """

    uses: tuple[str, ...]
    over: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Token:
    """An alias class in its storage, from its first to its last position, and why it lies there.

    `bytes` is its true size, `room` the size with bounds in the place of symbols.
    """

    name: str
    type: Tensor
    bytes: Dim
    room: Dim
    first: int
    last: int
    aliases: tuple[str, ...] = ()
    taken: str = "fresh"  # or "reused", "grown", "in place", "kept"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Storage:
    """Bytes that tokens of one dtype, block and scope have in turn; `kept`: why it has only one."""

    name: str
    bytes: Dim
    dtype: DType
    tokens: tuple[Token, ...]
    block: str = ""
    kept: str = ""
    scope: str = SCOPE

    @property
    def static(self) -> bool:
        """Whether it has the same size in every binding."""
        return isinstance(self.bytes, int)


@dataclass(frozen=True, slots=True)
class StoragePlan:
    """All storages in the order in which they are first needed, and the results that have none.

    `bounded` are the symbols whose upper bounds stand for them.
    """

    storages: tuple[Storage, ...]
    results: tuple[Token, ...] = ()
    bounded: tuple[str, ...] = ()

    @property
    def tokens(self) -> tuple[Token, ...]:
        """All that lie in storages."""
        return tuple(t for s in self.storages for t in s.tokens)

    @property
    def naive(self) -> Dim:
        """Bytes with a storage for every value, in true sizes."""
        return total(t.bytes for t in self.tokens)

    @property
    def naive_room(self) -> Dim:
        """The same with bounds in the place of symbols."""
        return total(t.room for t in self.tokens)

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
        """Bytes of all storages where no binding changes them, else None."""
        planned = self.planned
        return planned if isinstance(planned, int) else None

    @property
    def unbounded(self) -> tuple[str, ...]:
        """The symbols for want of whose upper bounds the plan is not static."""
        return tuple(sorted(set[str]().union(*(symbols_of(s.bytes) for s in self.storages))))


def total(sizes: Iterable[Dim]) -> Dim:
    """The sum of sizes, in normal form where they are: constants together, equal terms together."""
    numbers, terms = 0, []
    for size in sizes:
        if isinstance(size, int):
            numbers += size
        else:
            terms.append(size)
    return sympy.Add(numbers, *terms) if terms else numbers


def plan_storages(
    allocations: Sequence[Allocation], steps: Sequence[Step], env: ShapeEnv, options: Options
) -> StoragePlan:
    """The plan of these allocations along these steps."""
    return _Planner(allocations, steps, env, options).plan()


def room_of(kind: Tensor, env: ShapeEnv, used: set[str] | None = None) -> Dim:
    """Bytes with each dim that has an upper bound at that bound; `used` collects its symbols."""
    rooms: list[Dim] = [ITEM_BYTES[kind.element]]
    for dim in kind.dims:
        most = env.at_most(dim)
        rooms.append(dim if most is None else max(0, most))
        if most is not None and used is not None:
            used |= symbols_of(dim)
    return product(rooms)


class _Planner:
    def __init__(
        self,
        allocations: Sequence[Allocation],
        steps: Sequence[Step],
        env: ShapeEnv,
        options: Options,
    ) -> None:
        self.by_name = {a.name: a for a in allocations}
        self.steps, self.env, self.options = steps, env, options
        self.used: set[str] = set()
        self.pools: dict[tuple[str, str, DType], Pool | OwnPool] = {}
        self.storages: list[_Open] = []
        self.placed: dict[str, _Open] = {}
        self.results: list[Token] = []
        self.first, self.last = _ends(steps)

    def plan(self) -> StoragePlan:
        made: set[str] = set()
        for position, step in enumerate(self.steps):
            for name in step.uses:
                if name not in made:
                    made.add(name)
                    over = [(of, why) for to, of, why in step.over if to == name]
                    self.make(self.by_name[name], position, over)
            for name in dict.fromkeys(step.uses):
                if self.last[name] == position:
                    self.free(self.by_name[name], position)
        storages = tuple(s.closed() for s in self.storages)
        return StoragePlan(storages, tuple(self.results), tuple(sorted(self.used)))

    def token(self, a: Allocation) -> Token:
        room = room_of(a.type, self.env, self.used) if self.options.bounds else a.type.bytes
        ends = self.first[a.name], self.last[a.name]
        return Token(a.name, a.type, a.type.bytes, room, *ends, a.aliases)

    def make(self, a: Allocation, position: int, over: Sequence[tuple[str, str]]) -> None:
        token = self.token(a)
        if a.result and not self.options.outputs:
            self.results.append(replace(token, taken="kept", reason="a result: the caller's array"))
        elif a.result or a.kept:
            reason = a.kept or "a result, in a buffer of its own"
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
        """Why a value cannot take over the bytes of an input; "" where it can."""
        found, other = self.placed.get(source), self.by_name.get(source)
        if found is None or other is None:
            return "its bytes are in no buffer"
        if other.kept or found.owner != source:
            return other.kept or "it has given its bytes away"
        if not self.options.share or self.last[source] != position:
            return "it is used later"
        if (other.type.element, other.block) != (a.type.element, a.block):
            return "it is of another dtype or block"
        if self.env.equal(token.room, found.bytes) is not True:
            return f"{token.room} is not provably its {found.bytes} bytes"
        return ""

    def take(self, a: Allocation, token: Token, also: str = "") -> None:
        """A free storage, where one is proved to do, else a fresh one; `also` joins the reason."""
        key = (a.block, SCOPE, a.type.element)
        if key not in self.pools:
            self.pools[key] = self.pool()
        pool = self.pools[key]
        choice = pool.take(token.room, a.type)
        reason = choice.reason + also
        if choice.free is None:
            self.open(a, token, "fresh", reason)
            return
        storage = self.storages[choice.free.number]
        if choice.grows:
            storage.bytes = token.room
        self.lay(a, storage, token, "grown" if choice.grows else "reused", reason)

    def pool(self) -> Pool | OwnPool:
        """Storages of one kind, of which a proof or a policy of the user's own chooses."""
        policy = self.options.policy
        if isinstance(policy, str):
            return Pool(self.env, self.options.ordered)
        return OwnPool(self.env, policy)

    def open(self, a: Allocation, token: Token, taken: str, reason: str) -> None:
        kept = reason if taken == "kept" else ""
        storage = _Open(len(self.storages), token.room, a.type.element, a.block, kept)
        self.storages.append(storage)
        self.lay(a, storage, token, taken, reason)

    def lay(self, a: Allocation, storage: _Open, token: Token, taken: str, reason: str) -> None:
        storage.tokens.append(replace(token, taken=taken, reason=reason))
        storage.owner = a.name
        self.placed[a.name] = storage

    def free(self, a: Allocation, position: int) -> None:
        storage = self.placed.get(a.name)
        if storage is None or storage.kept or storage.owner != a.name or not self.options.share:
            return
        pool = self.pools[a.block, SCOPE, a.type.element]
        pool.give(Free(storage.number, storage.bytes, storage.name, a.name, position))


@dataclass(slots=True)
class _Open:
    """A storage while it is planned; `owner` is the value that lies in it now."""

    number: int
    bytes: Dim
    dtype: DType
    block: str
    kept: str
    owner: str = ""
    tokens: list[Token] = field(default_factory=list)

    @property
    def name(self) -> str:
        return f"s{self.number}"

    def closed(self) -> Storage:
        return Storage(self.name, self.bytes, self.dtype, tuple(self.tokens), self.block, self.kept)


def _ends(steps: Sequence[Step]) -> tuple[dict[str, int], dict[str, int]]:
    first: dict[str, int] = {}
    last: dict[str, int] = {}
    for position, step in enumerate(steps):
        for name in step.uses:
            first.setdefault(name, position)
            last[name] = position
    return first, last
