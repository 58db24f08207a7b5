"""Which instructions compute a product."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.ir import integers
from warpsmith.ir.exprs import Matmul
from warpsmith.targets.atoms import Atom, Unit


def atoms_for(product: Matmul, atoms: Iterable[Atom]) -> tuple[Atom, ...]:
    """Those that compute a product as precisely as it was asked for, in the order given.

    A thread's multiply-add takes operands of all types, which are converted before.
    """
    types = (product.a.dtype.value, product.b.dtype.value)
    return tuple(
        atom
        for atom in atoms
        if atom.sums == product.output.dtype.value
        and atom.precision in ("", product.precision)
        and (atom.unit is Unit.FMA or (atom.a, atom.b) == types)
    )


def atom_for(product: Matmul, atoms: Iterable[Atom]) -> Atom | None:
    """The `wgmma` that computes a product as precisely as it was asked for, if there is one."""
    found = atoms_for(product, atoms)
    return next((atom for atom in found if atom.unit is Unit.WGMMA), None)


def tensorized_by(product: Matmul, atoms: Iterable[Atom]) -> Atom | None:
    """The instruction whose rows, columns and depth the last three loops of a product are."""
    rows, columns, depth = (integers.constant(axis.extent) for axis in product.output.loop[-3:])
    fitting = (
        atom
        for atom in atoms_for(product, atoms)
        if (atom.rows, atom.depth) == (rows, depth) and columns and atom.takes(columns)
    )
    return next((atom for atom in fitting if atom.unit is not Unit.FMA), None)
