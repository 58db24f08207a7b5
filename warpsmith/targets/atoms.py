"""The products that tensor cores compute by one instruction, a row of a table each.

A type of operands that tensor cores take is a row more here, and no code elsewhere. Types are named
as `DataType` names them in text, so that a row may stand before its type does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

ROW_BYTES = 32
"""Bytes of an operand's row that one `wgmma` multiplies (PTX ISA, "wgmma.mma_async")."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Atom:
    """One kind of `wgmma`.

    Attributes:
        name: in identifiers.
        a, b: the operands' types, of one size.
        sums: the accumulators' type.
        ptx: the types of sums, a and b in the instruction's name.
        depth: elements of k.
        flags: what follows the predicate: signs of a and b, and whether they are transposed.
        precision: what the product must have asked for where the instruction rounds operands, or
            sums with fewer bits than its sums have; empty where it does neither.
    """

    name: str
    a: str
    b: str
    ptx: str
    depth: int
    flags: str
    sums: str = "float"
    precision: str = ""

    def takes(self, columns: int) -> bool:
        """Whether there is an instruction of so many columns."""
        if self.sums == "float":
            return columns in range(8, 257, 8)
        return columns in (8, 24) or columns in range(16, 257, 16)


FAST = "fast"
"""What no product asks for yet. Of sums of 8-bit floats, Hopper keeps 13 bits of the fraction
(as the simulator has it); exact ones take accumulators that are added to others every few steps."""


def _eight_bits(a: str, b: str, types: tuple[str, str]) -> Atom:
    both = ".".join((a, b))
    name = a if a == b else f"{a}_{b}"
    return Atom(
        name=name,
        a=types[0],
        b=types[1],
        ptx=f"f32.{both}",
        depth=32,
        flags="1, 1",
        precision=FAST,
    )


_EIGHT = (("e4m3", "float8_e4m3fn"), ("e5m2", "float8_e5m2"))

WGMMA = (
    Atom(
        name="bfloat16",
        a="bfloat16",
        b="bfloat16",
        ptx="f32.bf16.bf16",
        depth=16,
        flags="1, 1, 0, 0",
    ),
    Atom(name="half", a="half", b="half", ptx="f32.f16.f16", depth=16, flags="1, 1, 0, 0"),
    Atom(
        name="tf32",
        a="float",
        b="float",
        ptx="f32.tf32.tf32",
        depth=8,
        flags="1, 1",
        precision="tf32",
    ),
    *(_eight_bits(a, b, (first, other)) for a, first in _EIGHT for b, other in _EIGHT),
    Atom(name="int8", a="int8", b="int8", ptx="s32.s8.s8", depth=32, flags="", sums="int32"),
)
"""Products of warp groups (PTX ISA, "wgmma.mma_async"): sm_90a has them, and no other family."""


def atom_of(atoms: Iterable[Atom], a: str, b: str) -> Atom | None:
    """The instruction for operands of these types, where there is one."""
    return next((atom for atom in atoms if (atom.a, atom.b) == (a, b)), None)
