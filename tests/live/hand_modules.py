"""WebAssembly modules by hand: the kernels of `tests.runtime.hand_kernels`, and bad modules."""

from __future__ import annotations

from collections.abc import Iterable

I32, I64, VOID = b"\x7f", b"\x7e", b"\x40"
BLOCK, LOOP, END, BR, BR_IF = b"\x02", b"\x03", b"\x0b", b"\x0c", b"\x0d"
ADD, SUB, MUL, XOR, GE_S, LT_S, WRAP = b"\x7c", b"\x7d", b"\x7e", b"\x85", b"\x59", b"\x53", b"\xa7"
LOAD, STORE, UNREACHABLE = b"\x29\x03\x00", b"\x37\x03\x00", b"\x00"
FIRST, LAST, ARGS = (b"\x20" + bytes([n]) for n in range(3))
HEAD = b"\0asm\1\0\0\0"


def unsigned(value: int) -> bytes:
    """LEB128."""
    low, value = value & 127, value >> 7
    return bytes([low | 128]) + unsigned(value) if value else bytes([low])


def const(value: int) -> bytes:
    """`i64.const`."""
    out, done = b"", False
    while not done:
        low, value = value & 127, value >> 7
        done = (value == 0 and not low & 64) or (value == -1 and bool(low & 64))
        out += bytes([low if done else low | 128])
    return b"\x42" + out


def get(local: int) -> bytes:
    return b"\x20" + bytes([local])


def put(local: int) -> bytes:
    return b"\x21" + bytes([local])


def arg(n: int) -> bytes:
    """The nth argument."""
    return ARGS + const(8 * n) + ADD + WRAP + LOAD


def section(kind: int, items: Iterable[bytes]) -> bytes:
    rows = list(items)
    body = unsigned(len(rows)) + b"".join(rows)
    return bytes([kind]) + unsigned(len(body)) + body


def name(text: str) -> bytes:
    return unsigned(len(text)) + text.encode()


def module(kernels: dict[str, bytes], locals_: int = 4, imports: Iterable[bytes] = ()) -> bytes:
    """A module of kernels that imports its memory; `locals_` more int64 locals from number 3 on."""
    memory = name("env") + name("memory") + b"\x02\x00\x00"
    bodies = [b"\x01" + unsigned(locals_) + I64 + code + END for code in kernels.values()]
    exports = [name(n) + b"\x00" + unsigned(i) for i, n in enumerate(kernels)]
    return b"".join(
        (
            HEAD,
            section(1, [b"\x60\x03" + 3 * I64 + b"\x00"]),
            section(2, [memory, *imports]),
            section(3, [b"\x00"] * len(kernels)),
            section(7, exports),
            section(10, [unsigned(len(b)) + b for b in bodies]),
        )
    )


def counted(body: bytes) -> bytes:
    """A loop with local 3 from the first task to before the last."""
    done = get(3) + LAST + GE_S + BR_IF + b"\x01"
    more = get(3) + const(1) + ADD + put(3) + BR + b"\x00"
    return FIRST + put(3) + BLOCK + VOID + LOOP + VOID + done + body + more + END + END


# local 4: the address of the next note
_COUNT = arg(0) + WRAP
NOTE = b"".join(
    (
        arg(1) + _COUNT + LOAD + const(24) + MUL + ADD + put(4),
        _COUNT + _COUNT + LOAD + const(1) + ADD + STORE,
        get(4) + WRAP + arg(2) + STORE,
        get(4) + const(8) + ADD + WRAP + FIRST + STORE,
        get(4) + const(16) + ADD + WRAP + LAST + STORE,
    )
)
_OFFSET = get(3) + const(8) + MUL + ADD + WRAP
ADD_TASKS = counted(arg(1) + _OFFSET + arg(0) + _OFFSET + LOAD + get(3) + ADD + STORE)
# args: address of a word, rounds of a task; locals 4: value, 5: round
_ROUND = get(4) + get(5) + get(4) + MUL + get(5) + ADD + XOR + put(4)
_ROUNDS = b"".join(
    (
        const(0) + put(5) + LOOP + VOID + _ROUND,
        get(5) + const(1) + ADD + put(5) + get(5) + arg(1) + LT_S + BR_IF + b"\x00" + END,
    )
)
BURN = const(1) + put(4) + counted(_ROUNDS) + arg(0) + WRAP + get(4) + STORE
TRAP = UNREACHABLE
KERNELS = module({"note": NOTE, "add_tasks": ADD_TASKS, "burn": BURN, "trap": TRAP})
IMPORTING = module({"note": NOTE}, imports=[name("env") + name("other") + b"\x00\x00"])
INVALID = module({"note": ADD})  # operands are missing
