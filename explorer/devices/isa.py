"""The instruction set of machine code: a processor and its features, as LLVM names them."""

from __future__ import annotations

from dataclasses import dataclass

ARCHITECTURES = ("x86_64", "aarch64", "arm64", "riscv64", "wasm32")  # whose kernels are tested
FUSED = ("fma", "neon", "f", "relaxed-simd")  # of x86, Arm, RISC-V, and WebAssembly


@dataclass(frozen=True, slots=True)
class InstructionSet:
    """`processor` selects instruction costs, `features` the instruction set.

    A feature is "+avx2", or "-avx512f" for one that others of its kind have. `triple` is LLVM's
    name of the platform, such as "aarch64-unknown-linux-gnu"; "" is that of this process.
    """

    processor: str = "x86-64"
    features: tuple[str, ...] = ()
    triple: str = ""

    def has(self, feature: str) -> bool:
        """Return True if code may use a feature."""
        return f"+{feature}" in self.features

    @property
    def architecture(self) -> str:
        """The first part of the triple, such as "aarch64"; "" for that of this process."""
        return self.triple.partition("-")[0]

    @property
    def is_wasm(self) -> bool:
        """True for WebAssembly, which has 32-bit addresses and no linker of the system."""
        return self.architecture == "wasm32"

    @property
    def fuses(self) -> bool:
        """True if a multiply-add can be one instruction that rounds once.

        For WebAssembly's relaxed SIMD the engine chooses.
        """
        return any(map(self.has, FUSED))

    @property
    def is_avx512(self) -> bool:
        """True if vectors have AVX-512F: masks, and `x * 2**n` in one instruction."""
        return self.has("avx512f")

    def dot_product(self, lanes: int) -> str:
        """Return how groups of small integers are multiplied and added to `lanes` int32 sums.

        "groups" of four and "pairs" are instructions; "plain" uses int32 products.
        """
        if self.has("avx512vnni") and (lanes == 16 or self.has("avx512vl")):
            return "groups"
        needed = {4: "sse2", 8: "avx2", 16: "avx512bw"}.get(lanes, "")
        return "pairs" if self.has(needed) else "plain"

    @property
    def text(self) -> str:
        """All of it in one line, for keys."""
        own = f"{self.processor} {' '.join(self.features)}"
        return f"{self.triple} {own}" if self.triple else own
