"""Which instruction of tensor cores computes a product."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.ir.exprs import Matmul
from warpsmith.targets.atoms import Atom, atom_of


def atom_for(product: Matmul, atoms: Iterable[Atom]) -> Atom | None:
    """The instruction that computes a product as precisely as it was asked for, if there is one."""
    atom = atom_of(atoms, product.a.dtype.value, product.b.dtype.value)
    fits = atom is not None and atom.precision in ("", product.precision)
    return atom if fits and atom is not None and atom.sums == product.output.dtype.value else None
