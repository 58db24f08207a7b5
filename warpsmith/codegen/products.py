"""Statements about matrix products as CUDA text."""

from __future__ import annotations

from warpsmith.codegen.teams import Team, together
from warpsmith.codegen.values import ValueText
from warpsmith.errors import InternalError
from warpsmith.ir import integers
from warpsmith.ir.dtypes import DataType
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.products import (
    AwaitProducts,
    CommitProducts,
    FenceProducts,
    LoadMatrix,
    MatrixRegisters,
    MatrixTile,
    Multiply,
    MultiplyByWarp,
    PackRegisters,
    StoreMatrix,
)
from warpsmith.layouts.descriptors import packed_rows
from warpsmith.layouts.swizzle import CHUNK, HARDWARE, NONE
from warpsmith.targets.atoms import MMA, WGMMA, Atom, atom_of


def product_lines(statement: Statement, value: ValueText, team: Team | None) -> list[str]:
    """The lines of one statement of `kernel/products.py`."""
    together(team, statement)
    if not isinstance(statement, MultiplyByWarp | LoadMatrix):
        value.pieces.add("products")
    match statement:
        case Multiply():
            return [_multiply(statement, value)]
        case FenceProducts(accumulators=accumulators):
            return [*_changed(accumulators, value), "ws_fence_products();"]
        case CommitProducts():
            return ["ws_commit_products();"]
        case AwaitProducts(pending=pending, accumulators=accumulators, apart=apart):
            condition = "if (ws_unknown(1)) " if apart else ""
            if apart:
                value.pieces.add("unknown")
            awaited = f"{condition}ws_await_products<{pending}>();"
            return [awaited, *_changed(accumulators, value)]
        case PackRegisters(target=target, source=source, dtype=dtype):
            rounded = source.dtype is DataType.Float
            name = f"pack_{dtype.value if rounded else dtype.size}"
            value.pieces.add(name)
            return [f"ws_{name}({target.name}, {source.name});"]
        case MultiplyByWarp(sums=sums, index=index, a=a, b=b):
            atom = atom_of(MMA, a.buffer.dtype.value, b.buffer.dtype.value)
            if atom is None or atom.sums != sums.dtype.value:
                raise _no_atom(a.buffer, b.buffer, sums)
            piece = f"mma_{atom.name}"
            value.pieces.add(piece)
            places = (
                value.address(sums, index),
                *(value.address(s.buffer, s.index) for s in (a, b)),
            )
            return [f"ws_{piece}({', '.join(places)});"]
        case LoadMatrix(target=target, target_index=to, source=source, source_index=index):
            moved = statement.matrices
            piece = f"load_matrix_{moved.count}{'_t' * moved.transposed}"
            value.pieces.add(piece)
            return [f"ws_{piece}({value.address(target, to)}, {value.address(source, index)});"]
        case StoreMatrix(target=target, target_index=to, source=source, source_index=index):
            moved = statement.matrices
            kind = "_int" * target.dtype.is_int
            piece = f"store{kind}_matrix_{moved.count}{'_t' * moved.transposed}"
            value.pieces.add(piece)
            _check_matrix(target)
            row, elements = value.address(target, to), value.address(source, index)
            return [f"ws_{piece}({row}, {elements});"]
    raise InternalError(f"{type(statement).__name__} is no statement about products")


def _changed(accumulators: tuple[Buffer, ...], value: ValueText) -> list[str]:
    if any(buffer.dtype is DataType.Int32 for buffer in accumulators):
        value.pieces.add("products_int")
    return [f"ws_changed({buffer.name});" for buffer in accumulators]


def _multiply(product: Multiply, value: ValueText) -> str:
    a, b, sums = product.a, product.b, product.accumulators
    atom = atom_of(WGMMA, a.dtype.value, b.dtype.value)
    if atom is None or atom.sums != sums.dtype.value or not _takes(atom, product):
        raise _no_atom(a.buffer, b.buffer, sums)
    name = f"multiply_{atom.name}_{product.columns}{_ways(product)}"
    value.pieces.add(name)
    place = value.address(sums, product.index)
    if isinstance(a, MatrixRegisters):
        left = value.address(a.buffer, a.index)
    else:
        left = _matrix(a, value)
    right = _matrix(b, value)
    return f"ws_{name}({place}, {left}, {right}, {value(product.keep)});"


def _no_atom(a: Buffer, b: Buffer, sums: Buffer) -> InternalError:
    return InternalError(
        f"tensor cores multiply no {a.name} of {a.dtype.value} by {b.name} of {b.dtype.value} into "
        f"{sums.name} of {sums.dtype.value}"
    )


def _takes(atom: Atom, product: Multiply) -> bool:
    return atom.any_major or not (_transposed(product.a) or _transposed(product.b))


def _ways(product: Multiply) -> str:
    """What the name of a product says of its operands: a in registers, transposed ones."""
    held = isinstance(product.a, MatrixRegisters)
    a, b = _transposed(product.a), _transposed(product.b)
    return "_ra" * held + "_ta" * a + "_tb" * b


def _transposed(operand: MatrixTile | MatrixRegisters) -> bool:
    return isinstance(operand, MatrixTile) and operand.descriptor.transposed


def _check_matrix(buffer: Buffer) -> None:
    if buffer.dtype.size != 2:
        raise InternalError(f"{buffer.name} is {buffer.dtype.value}, and a matrix of 16 bits not")


def _matrix(tile: MatrixTile, value: ValueText) -> str:
    found = tile.descriptor
    swizzle = HARDWARE.get(found.swizzle, NONE)
    if swizzle == NONE or tile.buffer.alignment % swizzle.period:
        raise InternalError(
            f"{tile.buffer.name} starts at a multiple of {tile.buffer.alignment} bytes, and is "
            f"multiplied in rows of {found.swizzle}, whose pattern starts at one of "
            f"{swizzle.period}"
        )
    units = integers.floordiv(tile.index, CHUNK // tile.dtype.size)
    value.pieces.add("matrix")
    start = f"({tile.buffer.name}, {value(units)})"
    if found == packed_rows(found.swizzle):
        return f"ws_matrix<{found.swizzle}>{start}"
    value.pieces.add("matrix_across")
    return f"ws_matrix_across<{found.swizzle}, {found.leading}, {found.stride}>{start}"
