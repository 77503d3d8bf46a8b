"""Text of C: names, strings, comments, and formulas of symbolic sizes.

A number that depends on sizes is an entry of the table `e`, which a run computes first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from explorer.ir.dims import Dim, sympy
from explorer.portable.portable_program import Formula, PortableProgram, Symbols, dim_of

NOT_WORDS = re.compile(r"\W+", re.ASCII)
NOT_IN_COMMENTS = re.compile(r"[^ -~]|[*\\?]")
RESERVED = frozenset(("main", "test", "all", "help", "clean", "install", "edit_cache", "package"))
HELPERS = """static int64_t floor_div(int64_t a, int64_t b)
{
    int64_t q = a / b;
    return q - (a % b != 0 && (a % b < 0) != (b < 0));
}

static int64_t greatest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}
"""


def prefix_of(name: str) -> str:
    """Return the word that begins the names of a program's functions, macros and files."""
    word = NOT_WORDS.sub("_", name.rpartition("/")[2].removesuffix(".onnx")).strip("_").lower()
    if not word[:1].isalpha() or word in RESERVED:
        return f"model_{word}".rstrip("_")
    return word


def comment(text: str) -> str:
    """Return a text that is harmless in a comment: it ends none and begins none."""
    return NOT_IN_COMMENTS.sub("_", text)


def string(text: str) -> str:
    """Return a C string literal of any text, in UTF-8."""
    out = []
    for byte in text.encode("utf-8", "backslashreplace"):
        plain = 32 <= byte < 127 and chr(byte) not in '\\"?'
        out.append(chr(byte) if plain else f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def filled(text: str, words: dict[str, str]) -> str:
    """Return a text with a word in the place of each @ and a letter."""
    for letter, word in words.items():
        text = text.replace(f"@{letter}", word)
    return text


class FormulaTable:
    """The formulas of a program, each an entry of the table `e` of a run.

    `parameters` are the names of the symbols in C.
    """

    def __init__(self, program: PortableProgram) -> None:
        """Create a table of the ends of storages, which others refer to."""
        symbols: Symbols = program.symbols
        self.parameters = _parameters(symbols)
        self.entries: dict[Dim, int] = {}
        self.names: dict[str, str] = dict(self.parameters)
        for name, dim in symbols.ends:
            number = self.entries.setdefault(dim, len(self.entries))
            self.names[name] = f"e[{number}]"

    def text(self, number: int) -> str:
        """Return a number as C: an entry of the table if it depends on sizes."""
        if not isinstance(number, Formula):
            return str(number)
        return f"e[{self.index(number)}]"

    def index(self, number: int) -> int:
        """Return the entry of a number that depends on sizes."""
        return self.entries.setdefault(dim_of(number), len(self.entries))

    def assignments(self) -> str:
        """Return the statements that compute the table."""
        rows = self.entries.items()
        return "".join(f"    e[{n}] = {expression(dim, self.names)};\n" for dim, n in rows)

    @property
    def arguments(self) -> str:
        """The symbols as further arguments of a call."""
        return "".join(f", {name}" for name in self.parameters.values())

    @property
    def declarations(self) -> str:
        """The symbols as further parameters of a function."""
        return "".join(f", int64_t {name}" for name in self.parameters.values())


def expression(dim: Dim, names: Mapping[str, str]) -> str:
    """Return a dim as an expression of C, with names for its symbols."""

    def of(part: Dim) -> str:
        return expression(part, names)

    match dim:
        case int():
            return str(dim)
        case sympy.Integer():
            return str(int(dim))
        case sympy.Symbol():
            return names[dim.name]
        case sympy.Add():
            return f"({' + '.join(map(of, dim.args))})"
        case sympy.Mul():
            top, bottom = sympy.fraction(dim)
            if bottom != 1:
                return f"floor_div({of(top)}, {of(bottom)})"
            return f"({' * '.join(map(of, dim.args))})"
        case sympy.Pow() if dim.exp.is_Integer and dim.exp >= 0:
            return f"({' * '.join([of(dim.base)] * int(dim.exp)) or 1})"
        case sympy.floor():
            top, bottom = sympy.fraction(sympy.together(dim.args[0]))
            return f"floor_div({of(top)}, {of(bottom)})"
        case sympy.Max() | sympy.Min():
            name = "greatest" if isinstance(dim, sympy.Max) else "least"
            first, *others = map(of, dim.args)
            for other in others:
                first = f"{name}({first}, {other})"
            return first
        case sympy.Mod():
            top, by = map(of, dim.args)
            return f"({top} - {by} * floor_div({top}, {by}))"
    raise ValueError(f"a dim may be built from + - * // max min mod; found {dim}")


def _parameters(symbols: Symbols) -> dict[str, str]:
    """Return the name of each symbol in C."""
    names: dict[str, str] = {}
    for bound in symbols.bounds:
        word = f"dim_{NOT_WORDS.sub('_', bound.name)}"
        while word in names.values():
            word += "_"
        names[bound.name] = word
    return names
