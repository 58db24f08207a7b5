"""Primitives for tensor cores: which loops one instruction runs, and who holds its results."""

from __future__ import annotations

from collections.abc import Iterable

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.atoms import atoms_for, tensorized_by
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.tensor import TensorView
from warpsmith.layouts.fragments import QUAD, left
from warpsmith.layouts.matrices import LOOPS
from warpsmith.schedule.holding import hold_as
from warpsmith.schedule.transforms import reorder, split
from warpsmith.targets.atoms import MMA, ROW_BYTES, WGMMA, Atom

FRAGMENTS = {atom.rows: atom.sums_layout(8) for atom in (*MMA, *WGMMA)}
"""Who holds which of each 8 columns of a product, by its rows: 64 after any `wgmma`, and 16, of
doubles 8, after any `mma.sync`."""

WARPS = {atom.rows: atom.warps for atom in (*MMA, *WGMMA)}
"""Warps that have so many rows of an operand; 8 rows of either operand lie alike."""


def split_fragments(tensor: TensorView, axis: int = -2, *, quads: bool = False) -> TensorView:
    """Split loops over rows and columns as tensor cores leave a product in registers.

    Loops `axis` and `axis + 1` become four: the 128 threads of a warp group for 64 rows, the 32 of
    a warp for 16; n / 8; and the 2 x 2 that a thread holds of each 8 columns
    (`layouts/fragments.py`). Of 8 rows, which doubles have, it holds 2.

    Args:
        quads: the threads are two loops, for block_y and block_x: those that have rows of their
            own, and the four that share them, over which a sum or a maximum of rows goes.

    Raises:
        ScheduleError: WS1002 where the loops are not so many rows and a multiple of 8 columns.
    """
    position = axis + len(tensor.loop) if axis < 0 else axis
    rows, columns = _extents(tensor, position, 2)
    fragment = FRAGMENTS.get(rows or 0)
    if fragment is None or columns is None or columns % 8:
        raise ScheduleError(
            f"loops {tensor.loop[position : position + 2]!r} of {tensor.name} are no fragment of a "
            f"product: they are to be {_any(FRAGMENTS)} rows and a multiple of 8 columns",
            code="WS1002",
            remedy="split by the rows of an instruction and by the columns of the product first",
        )
    split(tensor, position + 1, fragment.shape[1])
    reorder(tensor, {position + 1: position})  # n / 8, rows, 8
    hold_as(tensor, position + 1, fragment, apart=QUAD if quads else 1)
    for number in range(1 + quads):
        reorder(tensor, {position + 1 + number: position + number})  # threads, n / 8, 2, 2
    return tensor


def split_operand(tensor: TensorView, axis: int = -2, dtype: DataType | None = None) -> TensorView:
    """Split loops over rows and some of k as tensor cores read an operand from registers.

    Loops `axis` and `axis + 1` become those over threads and over what each holds, in the order of
    its registers (`layouts/fragments.py`): the 128 of a warp group for 64 rows of a, the 32 of a
    warp for 16, and for 8 of b. For a of 16 bits they are `split_fragments`'s: sums, narrowed, are
    an operand.

    Args:
        dtype: of the operand, which the tensor may be one that it is computed from; by default the
            tensor's.

    Raises:
        ScheduleError: WS1002 where the loops are not so many rows and a multiple of the depth, 32
            bytes.
    """
    position = axis + len(tensor.loop) if axis < 0 else axis
    rows, columns = _extents(tensor, position, 2)
    size = (dtype or tensor.dtype).size
    depth = ROW_BYTES // size
    if rows not in WARPS or columns is None or columns % depth:
        raise ScheduleError(
            f"loops {tensor.loop[position : position + 2]!r} of {tensor.name} are no operand in "
            f"registers: they are to be {_any(WARPS)} rows and a multiple of {depth} of the "
            "reduced dimension",
            code="WS1002",
            remedy=f"split by the rows of an instruction and by {depth} first",
        )
    hold_as(tensor, position, left(rows // WARPS[rows], columns, size, WARPS[rows]))
    return tensor


def tensorize(tensor: TensorView) -> TensorView:
    """Have the last three loops run as one instruction of a warp group, or of each warp.

    A product's are rows, columns and elements of the reduced dimension: 64, n and 16 are one
    `wgmma` of 16-bit operands, 16, 8 and 16 one `mma.sync`. Results stay in registers as
    `split_fragments` says. A copy's by `stmatrix` are 2 or 1, 2 and 2, the first of them a part of
    the fragment's n / 8.

    Raises:
        ScheduleError: WS1003 for other tensors, and for other loops; WS1010 for types of operands
            that tensor cores do not multiply.
    """
    definition = tensor.definition
    if isinstance(definition, Matmul):
        atoms = _atoms(definition)
        kinds = [axis.is_reduction for axis in tensor.loop[-3:]]
        wanted = " or ".join(map(_words, atoms))
        fits = kinds == [False, False, True] and tensorized_by(definition, atoms) is not None
    else:
        wanted = f"{' or '.join(map(str, LOOPS))} inside a fragment, in a copy by stmatrix"
        fits = tensor.copied_by is LoadStoreOpType.stmatrix
        fits = fits and _extents(tensor, len(tensor.loop) - 3, 3) in LOOPS
    if not fits or any(a.parallel is not ParallelType.serial for a in tensor.loop[-3:]):
        raise ScheduleError(
            f"the last loops {tensor.loop[-3:]!r} of {tensor.name} are no instruction's: they are "
            f"to be {wanted}, all serial",
            code="WS1003",
            remedy="split and reorder them, or leave the tensor to the threads",
        )
    if isinstance(definition, Matmul):
        _lay_out(tensor)
    for axis in tensor.loop[-3:]:
        axis.parallel = ParallelType.mma
    return tensor


def _atoms(product: Matmul) -> tuple[Atom, ...]:
    """The instructions for a product's types, and for the precision that it asked for."""
    atoms = atoms_for(product, (*WGMMA, *MMA))
    if not atoms:
        a, b, sums = (t.dtype.value for t in (product.a, product.b, product.output))
        raise ScheduleError(
            f"{product.output.name} is the product of {a} and {b} summed in {sums}, and tensor "
            "cores have no instruction for it at its precision",
            code="WS1010",
            remedy="cast the operands to BFloat16 or Half, or leave the product to the threads",
        )
    return atoms


def _words(atom: Atom) -> str:
    columns = f"8 to {atom.columns[-1]} columns by 8" if atom.columns[1:] else "8 columns"
    return f"{atom.rows} rows, {columns} and {atom.depth} of k for {atom.unit.value}"


def _any(rows: Iterable[int]) -> str:
    """`8, 16 or 64`."""
    *most, last = map(str, sorted(rows))
    return f"{', '.join(most)} or {last}"


def _lay_out(tensor: TensorView) -> None:
    """The fragment of a thread: made of the same loops as that of the product's readers."""
    loops = list(tensor.loop)
    *_, depth = loops
    tensor.loop = loops[:-1]
    split_fragments(tensor)
    lanes, *own = tensor.loop[len(loops) - 3 :]
    tensor.loop = [*loops[:-1], depth]
    tensor.lanes, tensor.allocation = lanes, tuple(own)


def _extents(tensor: TensorView, position: int, count: int) -> tuple[int | None, ...]:
    axes: list[IterDomain] = tensor.loop[position : position + count] if position >= 0 else []
    return tuple(integers.constant(axis.extent) for axis in axes) or (None,) * count
