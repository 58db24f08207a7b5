"""The instructions that multiply matrices, a row of a table each: what a planner can know of them.

A type of operands that tensor cores take is a row more here, and no code elsewhere. Types are named
as `DataType` names them in text.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from warpsmith.layouts import fragments
from warpsmith.layouts.layout import Layout
from warpsmith.values import dataclass

ROW_BYTES = 32
"""Bytes of an operand's row that one `wgmma` multiplies (PTX ISA, "wgmma.mma_async")."""

ROWS = 64
"""Rows of a product that one warp group computes by one `wgmma`."""


class Unit(Enum):
    """The instruction that an atom is."""

    WGMMA = "wgmma"
    MMA = "mma.sync"
    FMA = "fma"


class Source(Enum):
    """Where an atom reads an operand: tiles in shared memory, or registers of its threads."""

    SHARED = "shared memory"
    REGISTERS = "registers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """One instruction that multiplies and adds, for one pair of types.

    Attributes:
        name: in identifiers.
        unit: the instruction.
        a, b: the operands' types, of one size.
        sums: the accumulators' type.
        ptx: the types of sums, a and b in the instruction's name.
        warps: how many run it together; 0 where each thread does on its own.
        rows, depth: of the product; elements of k.
        columns: the numbers of columns for which there is an instruction.
        a_from: where it reads the first operand.
        any_major: whether operands in shared memory may be contiguous along m or n, not only k.
        signs: what follows the predicate: the factors 1 or -1 of a and b. Whether they are
            transposed comes behind, where they may lie along m or n.
        precision: what the product must have asked for where the instruction rounds operands, or
            sums with fewer bits than its sums have; empty where it does neither.
        rate: multiply-adds of a multiprocessor in a clock, at most, operands at hand.
    """

    name: str
    unit: Unit
    a: str
    b: str
    sums: str
    ptx: str
    warps: int
    rows: int
    columns: tuple[int, ...]
    depth: int
    a_from: tuple[Source, ...]
    any_major: bool = False
    signs: tuple[str, ...] = ()
    precision: str = ""
    rate: int

    @property
    def size(self) -> int:
        """Bytes of an element of an operand."""
        return SIZES[self.a]

    @property
    def is_asynchronous(self) -> bool:
        """Whether it reads operands, and writes sums, until its group has been waited for."""
        return self.unit is Unit.WGMMA

    def takes(self, columns: int) -> bool:
        """Whether there is an instruction of so many columns."""
        return columns in self.columns

    def sums_layout(self, columns: int) -> Layout:
        """Who holds which of the sums, rows by columns."""
        if self.warps == 0:
            return ONE
        return fragments.sums(self.rows // self.warps, columns, self.warps)

    def a_layout(self) -> Layout:
        """Who holds which element of a, rows by k, where it comes from registers."""
        if self.warps == 0:
            return ONE
        return fragments.left(self.rows // self.warps, self.depth, self.size, self.warps)

    def b_layout(self, columns: int) -> Layout:
        """Who holds which element of b, columns by k, where it comes from registers.

        A `wgmma` takes it from shared memory only.
        """
        return ONE if self.warps == 0 else fragments.right(columns, self.depth, self.size)


ONE = Layout((1, 1), ())
"""A matrix of one element, which a thread multiplies on its own."""

FAST = "fast"
"""Of sums of 8-bit floats, Hopper keeps 13 bits of the fraction (as the simulator has it). Adding
accumulators to others makes them not exact: an instruction loses bits of its own 32 products."""

HALF_RATE = 2048
"""Multiply-adds of 16-bit types by `wgmma` in a clock of a multiprocessor: 989 TFLOP/s of 132 at
1.83 GHz; of TF32 half of that, of 8 bits twice (NVIDIA H100 white paper, "H100 SXM5")."""

SYNCHRONOUS = 0.63
"""The share of that which `mma.sync` reaches on Hopper (arXiv 2402.13499, "tensor cores")."""

FLOAT_RATE = 128
"""Multiply-adds of floats by threads (CUDA C++ Programming Guide, "Throughput of native arithmetic
instructions", 9.0); of doubles and integers half of that, of 64-bit integers some 12th."""

SIZES = {
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int8": 1,
    "bfloat16": 2,
    "half": 2,
    "float": 4,
    "int32": 4,
    "double": 8,
    "int64": 8,
}
"""Bytes of an element of each type."""

_EVEN = tuple(range(8, 257, 8))
_BYTES = (8, 24, *range(16, 257, 16))


def _wgmma(
    name: str,
    types: tuple[str, str],
    ptx: str,
    *,
    signs: tuple[str, ...],
    sums: str = "float",
    columns: tuple[int, ...] = _EVEN,
    precision: str = "",
) -> Atom:
    """A product of a warp group; only operands of 16 bits may lie along m or n (PTX ISA, "Strides"
    of "wgmma.mma_async")."""
    size = SIZES[types[0]]
    return Atom(
        name=name,
        unit=Unit.WGMMA,
        a=types[0],
        b=types[1],
        sums=sums,
        ptx=ptx,
        warps=4,
        rows=ROWS,
        columns=columns,
        depth=ROW_BYTES // size,
        a_from=(Source.SHARED, Source.REGISTERS),
        any_major=size == 2,
        signs=signs,
        precision=precision,
        rate=HALF_RATE * 2 // size,
    )


def _mma(
    name: str,
    type_: str,
    ptx: str,
    shape: tuple[int, int, int],
    rate: int,
    *,
    sums: str = "float",
    precision: str = "",
) -> Atom:
    """A product of a warp, which waits for it as for any instruction."""
    rows, columns, depth = shape
    return Atom(
        name=name,
        unit=Unit.MMA,
        a=type_,
        b=type_,
        sums=sums,
        ptx=ptx,
        warps=1,
        rows=rows,
        columns=(columns,),
        depth=depth,
        a_from=(Source.REGISTERS,),
        precision=precision,
        rate=rate,
    )


def _fma(type_: str, rate: int) -> Atom:
    """A multiply-add of a thread: it fits all operands, which are converted to its type before."""
    return Atom(
        name=type_,
        unit=Unit.FMA,
        a=type_,
        b=type_,
        sums=type_,
        ptx="",
        warps=0,
        rows=1,
        columns=(1,),
        depth=1,
        a_from=(Source.REGISTERS,),
        rate=rate,
    )


_EIGHT = (("e4m3", "float8_e4m3fn"), ("e5m2", "float8_e5m2"))
_SIGNS = ("1", "1")

WGMMA = (
    _wgmma("bfloat16", ("bfloat16", "bfloat16"), "f32.bf16.bf16", signs=_SIGNS),
    _wgmma("half", ("half", "half"), "f32.f16.f16", signs=_SIGNS),
    _wgmma("tf32", ("float", "float"), "f32.tf32.tf32", signs=_SIGNS, precision="tf32"),
    *(
        _wgmma(
            a if a == b else f"{a}_{b}",
            (first, other),
            f"f32.{a}.{b}",
            signs=_SIGNS,
            precision=FAST,
        )
        for a, first in _EIGHT
        for b, other in _EIGHT
    ),
    _wgmma("int8", ("int8", "int8"), "s32.s8.s8", signs=(), sums="int32", columns=_BYTES),
)

_SLOW = int(HALF_RATE * SYNCHRONOUS)

MMA = (
    _mma("bfloat16", "bfloat16", "f32.bf16.bf16.f32", (16, 8, 16), _SLOW),
    _mma("half", "half", "f32.f16.f16.f32", (16, 8, 16), _SLOW),
    _mma("tf32", "float", "f32.tf32.tf32.f32", (16, 8, 8), _SLOW // 2, precision="tf32"),
    *(_mma(name, type_, f"f32.{name}.{name}.f32", (16, 8, 32), _SLOW) for name, type_ in _EIGHT),
    _mma("int8", "int8", "s32.s8.s8.s32", (16, 8, 32), 2 * _SLOW, sums="int32"),
    _mma("double", "double", "f64.f64.f64.f64", (8, 8, 4), FLOAT_RATE, sums="double"),
)
"""Hopper computes 8-bit floats by two products of halves, whose sums lose no more than those of
halves do; products of doubles reach 67 TFLOP/s (NVIDIA H100 white paper)."""

FMA = (
    _fma("float", FLOAT_RATE),
    _fma("double", FLOAT_RATE // 2),
    _fma("int32", FLOAT_RATE // 2),
    _fma("int64", FLOAT_RATE // 12),
)

ATOMS = (*WGMMA, *MMA, *FMA)
"""All that is known, the fastest for given types first."""


def atom_of(atoms: Iterable[Atom], a: str, b: str) -> Atom | None:
    """The first of these for operands of such types, where there is one."""
    return next((atom for atom in atoms if (atom.a, atom.b) == (a, b)), None)
