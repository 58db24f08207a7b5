"""Primitives for tensor cores: which loops one instruction runs, and who holds its results."""

from __future__ import annotations

from warpsmith.errors import ScheduleError
from warpsmith.ir import integers
from warpsmith.ir.atoms import atom_for
from warpsmith.ir.copies import LoadStoreOpType
from warpsmith.ir.domains import IterDomain, ParallelType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.tensor import TensorView
from warpsmith.layouts.fragments import QUAD, left
from warpsmith.layouts.matrices import LOOPS
from warpsmith.schedule.holding import hold_as
from warpsmith.schedule.transforms import reorder, split
from warpsmith.targets.atoms import ROW_BYTES, ROWS, WGMMA, Atom

FRAGMENT = WGMMA[0].sums_layout(8)
"""Who holds which of a product's 64 rows and of each 8 columns, after any `wgmma`."""


def split_fragments(tensor: TensorView, axis: int = -2, *, quads: bool = False) -> TensorView:
    """Split loops over 64 rows and n columns as tensor cores leave a product in registers.

    Loops `axis` and `axis + 1` become four: the 128 threads of a warp group, n / 8, and the 2 x 2
    that a thread holds of each 8 columns (`layouts/fragments.py`).

    Args:
        quads: the threads are two loops, for block_y and block_x: the 32 that have rows of their
            own, and the four that share them, over which a sum or a maximum of rows goes.

    Raises:
        ScheduleError: WS1002 where the loops are not 64 rows and a multiple of 8 columns.
    """
    position = axis + len(tensor.loop) if axis < 0 else axis
    rows, columns = _extents(tensor, position, 2)
    if rows != ROWS or columns is None or columns % 8:
        raise ScheduleError(
            f"loops {tensor.loop[position : position + 2]!r} of {tensor.name} are no fragment of a "
            f"product: they are to be {ROWS} rows and a multiple of 8 columns",
            code="WS1002",
            remedy=f"split by {ROWS} and by the columns of the product first",
        )
    split(tensor, position + 1, FRAGMENT.shape[1])
    reorder(tensor, {position + 1: position})  # n / 8, rows, 8
    hold_as(tensor, position + 1, FRAGMENT, apart=QUAD if quads else 1)
    for number in range(1 + quads):
        reorder(tensor, {position + 1 + number: position + number})  # threads, n / 8, 2, 2
    return tensor


def split_operand(tensor: TensorView, axis: int = -2, dtype: DataType | None = None) -> TensorView:
    """Split loops over 64 rows and some of k as tensor cores read operand a from registers.

    Loops `axis` and `axis + 1` become those over the 128 threads of a warp group and over what each
    holds, in the order of its registers (`layouts/fragments.py`). For types of 16 bits they are
    `split_fragments`'s: sums, narrowed, are an operand.

    Args:
        dtype: of the operand, which the tensor may be one that it is computed from; by default the
            tensor's.

    Raises:
        ScheduleError: WS1002 where the loops are not 64 rows and a multiple of the depth, 32 bytes.
    """
    position = axis + len(tensor.loop) if axis < 0 else axis
    rows, columns = _extents(tensor, position, 2)
    size = (dtype or tensor.dtype).size
    depth = ROW_BYTES // size
    if rows != ROWS or columns is None or columns % depth:
        raise ScheduleError(
            f"loops {tensor.loop[position : position + 2]!r} of {tensor.name} are no operand in "
            f"registers: they are to be {ROWS} rows and a multiple of {depth} of the reduced "
            "dimension",
            code="WS1002",
            remedy=f"split by {ROWS} and by {depth} first",
        )
    hold_as(tensor, position, left(16, columns, size, warps=4))
    return tensor


def tensorize(tensor: TensorView) -> TensorView:
    """Have the last three loops run as one instruction of a warp group, or of each warp.

    A product's are 64 rows, n columns and 16 elements of the reduced dimension: one `wgmma`, whose
    results stay in the registers of the group's 128 threads as `split_fragments` says. A copy's by
    `stmatrix` are 2, 2 and 2, the first of them a part of the fragment's n / 8.

    Raises:
        ScheduleError: WS1003 for other tensors, and for other loops; WS1010 for types of operands
            that tensor cores do not multiply.
    """
    definition = tensor.definition
    if isinstance(definition, Matmul):
        atom = _atom(definition)
        kinds = [axis.is_reduction for axis in tensor.loop[-3:]]
        most = atom.columns[-1]
        wanted = f"{atom.rows} rows, 8 to {most} columns by 8, and {atom.depth} of k"
        rows, columns, depth = _extents(tensor, len(tensor.loop) - 3, 3)
        fits = columns is not None and atom.takes(columns)
        fits = fits and (rows, depth) == (atom.rows, atom.depth)
        fits = fits and kinds == [False, False, True]
    else:
        wanted = f"{LOOPS} inside a fragment, in a copy by stmatrix"
        fits = tensor.copied_by is LoadStoreOpType.stmatrix
        fits = fits and _extents(tensor, len(tensor.loop) - 3, 3) == LOOPS
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


def _atom(product: Matmul) -> Atom:
    """The instruction for a product's types, and for the precision that it asked for."""
    atom = atom_for(product, WGMMA)
    if atom is None:
        a, b, sums = (t.dtype.value for t in (product.a, product.b, product.output))
        raise ScheduleError(
            f"{product.output.name} is the product of {a} and {b} summed in {sums}, and tensor "
            "cores have no instruction for it at its precision",
            code="WS1010",
            remedy="cast the operands to BFloat16 or Half, or leave the product to the threads",
        )
    return atom


def _lay_out(tensor: TensorView) -> None:
    """The fragment of a thread: made of the same loops as that of the product's readers."""
    loops = list(tensor.loop)
    rows, columns, depth = loops[-3:]
    tensor.loop = [*loops[:-3], rows, columns]
    split_fragments(tensor)
    lanes, *own = tensor.loop[-4:]
    tensor.loop = [*loops[:-3], rows, columns, depth]
    tensor.lanes, tensor.allocation = lanes, tuple(own)


def _extents(tensor: TensorView, position: int, count: int) -> tuple[int | None, ...]:
    axes: list[IterDomain] = tensor.loop[position : position + count] if position >= 0 else []
    return tuple(integers.constant(axis.extent) for axis in axes) or (None,) * count
