"""Atoms' fragments and descriptors, by products that the simulator's tensor cores compute."""

from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from tests.sim.support.fragments import NUMPY, TABLES, Matrix, accumulator, bits_of
from tests.sim.support.native_parts import Parts, Product, Rows, Wgmma
from warpsmith.ir.dtypes import DataType
from warpsmith.layouts.descriptors import descriptor
from warpsmith.layouts.fragments import left, right, sums
from warpsmith.layouts.layout import Layout, Piece, Place
from warpsmith.layouts.memory import MemoryLayout
from warpsmith.layouts.swizzle import HARDWARE
from warpsmith.sim.isa import Type
from warpsmith.targets.atoms import ATOMS, FMA, MMA, ROW_BYTES, WGMMA, Atom, Source


def held(layout: Layout, matrix: Matrix) -> Rows:
    """Rows of 32-bit (or 64-bit) registers, a stage for each lane of all warps."""
    width = 8 * matrix.dtype.itemsize
    packed, lanes = max(1, 32 // width), 32 * layout.extent(Place.WARP)
    rows = np.zeros((layout.extent(Place.REGISTER) // packed, lanes), np.uint64)
    bits = bits_of(matrix)
    for at in np.ndindex(*layout.shape):
        register, lane = of(layout, at)
        rows[register // packed, lane] |= bits[at] << np.uint64(register % packed * width)
    return rows


def taken(layout: Layout, rows: Rows, dtype: np.dtype) -> Matrix:
    """The matrix that registers hold, one element each."""
    out = np.zeros(layout.shape, f"u{dtype.itemsize}")
    for at in np.ndindex(*layout.shape):
        register, lane = of(layout, at)
        out[at] = int(rows[register, lane]) & (1 << 8 * dtype.itemsize) - 1
    return out.view(dtype)


def of(layout: Layout, at: tuple[int, ...]) -> tuple[int, int]:
    """(register, lane of all warps) of an element."""
    where = layout.at(*at)
    warp, lane = where.get(Place.WARP, 0), where.get(Place.LANE, 0)
    return where.get(Place.REGISTER, 0), 32 * warp + lane


def of_instruction(atom: Atom, columns: int) -> Product:
    d, a, b = (Type[name.upper()] for name in atom.ptx.split(".")[:3])
    return Product(d=d, a=a, b=b, m=atom.rows, n=columns, k=atom.depth)


def numbers(seed: int, shape: tuple[int, int], dtype: np.dtype) -> Matrix:
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def exact(a: Matrix, b: Matrix) -> npt.NDArray[np.float64]:
    found: npt.NDArray[np.float64] = a.astype(np.float64) @ b.astype(np.float64).T
    return found


@pytest.mark.parametrize("shape", TABLES, ids=str)
def test_fragments_are_those_of_the_tables(shape: tuple[int, int, int]) -> None:
    bits, m, k = shape
    table = TABLES[shape]
    a, b, c = left(m, k, bits // 8), right(8, k, bits // 8), sums(m, 8)
    assert {of(a, at): at for at in np.ndindex(m, k)} == {
        (i, lane): table.a(lane // 4, lane % 4, i)
        for i, lane in product(range(table.a_count), range(32))
    }
    assert {of(b, at): (at[1], at[0]) for at in np.ndindex(8, k)} == {
        (i, lane): table.b(lane // 4, lane % 4, i)
        for i, lane in product(range(table.b_count), range(32))
    }
    count, place = accumulator(m, 8)
    assert {of(c, at): at for at in np.ndindex(m, 8)} == {
        (i, lane): place(lane // 4, lane % 4, i) for i, lane in product(range(count), range(32))
    }


@pytest.mark.few(4)
@pytest.mark.parametrize("atom", MMA, ids=lambda atom: atom.name)
def test_products_of_a_warp(parts: Parts, atom: Atom) -> None:
    (columns,) = atom.columns
    what = of_instruction(atom, columns)
    a = numbers(1, (atom.rows, atom.depth), NUMPY[what.a])
    b = numbers(2, (columns, atom.depth), NUMPY[what.b])
    c = numbers(3, (atom.rows, columns), NUMPY[what.d])
    layout = atom.sums_layout(columns)
    found = parts.mma(
        what, held(atom.a_layout(), a), held(atom.b_layout(columns), b), held(layout, c)
    )
    assert found is not None
    np.testing.assert_array_equal(taken(layout, found[0], NUMPY[what.d]), exact(a, b) + c)


def put(memory: npt.NDArray[np.uint8], start: int, tile: MemoryLayout, matrix: Matrix) -> int:
    """Write an operand to shared memory; its descriptor."""
    raw = np.ascontiguousarray(matrix).view(np.uint8).reshape(*matrix.shape, tile.size)
    for at in np.ndindex(*matrix.shape):
        begin = start + tile.byte(*at)
        memory[begin : begin + tile.size] = raw[at]
    found = descriptor(tile)
    assert found is not None
    return found.bits(start)


def in_rows(row: int, shape: tuple[int, int], size: int, *, turned: bool) -> MemoryLayout:
    """A tile in rows of so many bytes along k, or along m or n."""
    width, (fast, slow) = row // size, (0, 1) if turned else (1, 0)
    inner = min(width, shape[fast])
    pieces = (
        *(
            Piece(fast, inner, 1, Place.ADDRESS, 1),
            Piece(slow, shape[slow], 1, Place.ADDRESS, width),
        ),
        Piece(fast, shape[fast] // inner, inner, Place.ADDRESS, shape[slow] * width),
    )
    tile = Layout(shape, pieces)
    return MemoryLayout(tile, size, HARDWARE[row])


@pytest.mark.few(10)
@pytest.mark.parametrize("atom", WGMMA, ids=lambda atom: atom.name)
@pytest.mark.parametrize("a_from", Source)
@pytest.mark.parametrize("row", [32, 64, 128])
@pytest.mark.parametrize("turned", [False, True])
def test_products_of_a_warp_group(
    parts: Parts, atom: Atom, a_from: Source, row: int, turned: bool
) -> None:
    assert a_from in atom.a_from
    columns, size = 64, atom.size
    what = of_instruction(atom, columns)
    a = numbers(4, (64, atom.depth), NUMPY[what.a])
    b = numbers(5, (columns, atom.depth), NUMPY[what.b])
    memory = np.zeros(1 << 18, np.uint8)
    left_turned = turned and a_from is Source.SHARED
    if a_from is Source.SHARED:
        if turned and not atom.any_major:
            tile = in_rows(row, (64, atom.depth), size, turned=True)
            assert descriptor(tile) is None
            return
        first = put(memory, 1024, in_rows(row, (64, atom.depth), size, turned=turned), a)
    else:
        first = held(atom.a_layout(), a)
        turned = turned and atom.any_major
    second = put(memory, 65536, in_rows(row, (columns, atom.depth), size, turned=turned), b)
    layout = atom.sums_layout(columns)
    rows = held(layout, np.zeros((64, columns), NUMPY[what.d]))
    poison = parts.wgmma(
        Wgmma(product=what, a=first, b=second, a_transposed=left_turned, b_transposed=turned),
        *(memory, rows),
    )
    assert poison is not None
    np.testing.assert_array_equal(taken(layout, rows, NUMPY[what.d]), exact(a, b))


def test_the_sums_narrowed_to_16_bits_are_operand_a() -> None:
    """Of 16 columns; of 8-bit types they are not."""
    assert sums(16, 16, 4) == left(16, 16, 2, 4)
    assert sums(16, 32, 4) != left(16, 32, 1, 4)


@pytest.mark.parametrize("atom", ATOMS, ids=lambda atom: f"{atom.unit.value} {atom.name}")
def test_rows_agree_with_what_they_name(atom: Atom) -> None:
    known = {dtype.value: dtype for dtype in DataType}
    assert known[atom.a].size == known[atom.b].size == atom.size
    assert atom.is_asynchronous == (atom in WGMMA)
    if atom in WGMMA:
        assert atom.depth * atom.size == ROW_BYTES
        assert atom.any_major == (atom.size == 2)
    threads, columns = 32 * max(atom.warps, 1 / 32), atom.columns[-1]
    fragment = atom.sums_layout(columns)
    assert fragment.shape == (atom.rows, columns)
    assert fragment.extent(Place.REGISTER) * threads == atom.rows * columns
    assert atom.a_layout().shape == (atom.rows, atom.depth)
    if atom in FMA:
        assert (atom.a, atom.rows, columns, atom.depth) == (atom.sums, 1, 1, 1)
        assert atom.b_layout(columns).shape == (1, 1)


def test_the_fastest_comes_first_of_those_with_the_same_types() -> None:
    for first, second in product(ATOMS, ATOMS):
        if (first.a, first.b) == (second.a, second.b) and ATOMS.index(first) < ATOMS.index(second):
            assert first.rate > second.rate
