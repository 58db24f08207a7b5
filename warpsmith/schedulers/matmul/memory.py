"""What the memory of a product's tensors allows: the TMA unit, staged results, pairs of columns."""

from __future__ import annotations

from collections.abc import Iterator

from warpsmith.ir.exprs import Matmul
from warpsmith.ir.mapping import map_of
from warpsmith.ir.program import Program
from warpsmith.ir.reads import start_and_step, stretch_of
from warpsmith.ir.strides import strides
from warpsmith.ir.tensor import TensorView
from warpsmith.layouts.layout import Layout
from warpsmith.layouts.memory import MemoryLayout, vector
from warpsmith.schedule.products import FRAGMENTS
from warpsmith.schedulers.caching import in_memory
from warpsmith.schedulers.matmul.applicability import MAP_RANK
from warpsmith.schedulers.matmul.blocks import carried, scale_input
from warpsmith.schedulers.matmul.params import FOUR, Count
from warpsmith.schedulers.matmul.partials import has_parts
from warpsmith.schedulers.matmul.shape import Shape, places_of, shape_of, sources_of, tiles_of
from warpsmith.schedulers.matmul.turned_columns import reads_beside, reads_pairs
from warpsmith.schedulers.problem import Problem
from warpsmith.targets.atoms import ROWS
from warpsmith.values import dataclass

TMA_BYTES = 16
"""What addresses and strides of the TMA unit's copies are multiples of (PTX ISA)."""

PLACE = 128
"""What the place of a copy through a tensor map is a multiple of (PTX ISA)."""

MATRIX_BYTES = 2
"""Of an element that `stmatrix` stores."""

PAIR = vector(FRAGMENTS[ROWS], MemoryLayout(Layout.row_major((ROWS, 8)), size=1))
"""Neighbouring columns of a product that a thread holds."""


def unloadable(fusion: Program, problem: Problem) -> str:
    """Why the TMA unit, which feeds tensor cores, cannot load the operands of a call.

    Empty where it can. A copy of the operand whose rows are padded would do: `padding.padded`.
    """
    products = [op for op in fusion.operations if isinstance(op, Matmul)]
    groups = products[0].rows_and_groups
    if groups is not None and any(problem.size(axis.extent) == 0 for axis in groups):
        return "it has no rows or no groups, and the TMA unit takes no empty tensor"
    operands = dict.fromkeys(operand for op in products for operand in op.operands)
    for tensor in (source for operand in operands for source in sources_of(operand)):
        what = unfit_rows(tensor, problem)
        if what:
            return (
                f"{tensor.name} has {what}, and the TMA unit, which feeds tensor cores, takes "
                f"multiples of {TMA_BYTES}"
            )
    return next(filter(None, (_late(operand, problem) for operand in operands)), "")


def _late(operand: TensorView, problem: Problem) -> str:
    """Why boxes of a stretch of a tensor begin at no multiples of 16 bytes; empty where they do."""
    for tensor in tiles_of(operand):
        stretch = stretch_of(tensor)
        if stretch is not None:
            (source,), (places,) = stretch.sources, stretch.places
            fastest = source.concrete_order()[-1]
            walked = start_and_step(places[fastest], fastest)
            if walked is not None and problem.size(walked[0]) * source.dtype.size % TMA_BYTES:
                return f"{tensor.name} begins within {TMA_BYTES} bytes of {source.name}"
    return ""


def unfit_rows(tensor: TensorView, problem: Problem) -> str:
    """The address or the row that starts at no multiple of 16 bytes; empty where all do."""
    size = tensor.dtype.size
    aligned = problem.alignment.get(tensor.name, TMA_BYTES)
    if aligned % TMA_BYTES:
        return f"an address that is a multiple of {aligned} bytes"
    extents = [problem.size(axis.extent) for axis in tensor.shape_axes]
    for dimension, stride in _strides(tensor, problem).items():
        if stride == 0 and extents[dimension] > 1 and 0 not in extents:
            return f"the stride 0 along its dimension {dimension}"
        if stride * size % TMA_BYTES:
            return f"rows of {stride} elements, {stride * size} bytes"
    return ""


def _strides(tensor: TensorView, problem: Problem) -> dict[int, int]:
    """The strides of all dimensions but the fastest, in elements, fastest first."""
    steps = strides(tensor, [axis.extent for axis in tensor.shape_axes])
    return {d: problem.size(steps[d]) for d in reversed(tensor.concrete_order()[:-1])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """How the tensors beside a product's operands move, in a call.

    Attributes:
        loaded: names of the inputs that the TMA unit brings to shared memory, a chunk of a tile's
            columns at a time.
        staged: names of the outputs that leave from there, a chunk at a time.
        by_rows: of these, the names of those whose rows the TMA unit does not take, which threads
            store along rows, and how many elements each stores at once.
        pairs: names of the tensors that threads could access two columns of at once.
        out: bytes of an element in all chunks that are stored.
        planes: bytes of an element of each that is loaded and has rows and columns.
        row: bytes of a row in those that have no columns.
        column: bytes of a column in those that have no rows.
        widest: bytes of the longest element in any chunk.
        by_threads: bytes of an element of inputs with rows and columns that threads load.
        like_operands: whether all that are loaded have the operands' type.
    """

    loaded: tuple[str, ...] = ()
    staged: tuple[str, ...] = ()
    by_rows: tuple[tuple[str, int], ...] = ()
    pairs: tuple[str, ...] = ()
    out: int = 0
    planes: tuple[int, ...] = ()
    row: int = 0
    column: int = 0
    widest: int = 0
    by_threads: int = 0
    like_operands: bool = False

    @property
    def each(self) -> int:
        """Bytes of an element in all chunks that are loaded and have rows and columns."""
        return sum(self.planes)

    def size(self, rows: Count, columns: Count, places: int = 1) -> Count:
        """Bytes of a stage of all chunks, for tiles of so many rows, of which some are staged in as
        many places.
        """
        whole = rows * columns * (self.each + places * self.out)
        return whole + rows * self.row + columns * self.column

    def loaded_size(self, rows: Count, columns: Count) -> Count:
        """Bytes of a stage of the chunks that are loaded, each from a multiple of `PLACE` on."""
        vectors = len(self.loaded) - len(self.planes)
        whole = sum(-(-rows * columns * size // PLACE) * PLACE for size in self.planes)
        return whole + rows * self.row + columns * self.column + vectors * PLACE


def beside(fusion: Program, product: Matmul, shape: Shape, problem: Problem) -> Beside:
    """How the tensors beside the operands move: in chunks where memory allows it. Where tiles' rows
    are the product's columns, results of 16 bits alone do, which `stmatrix` turns.

    Args:
        shape: of the product, or of it with its operands swapped.
    """
    moved: dict[TensorView, bool] = {}
    by_rows: dict[str, int] = {}
    has: dict[TensorView, tuple[bool, bool]] = {}
    domains, upright = map_of(fusion), shape == shape_of(product)
    outputs = set(_whole(fusion))
    turned = all(output.dtype.size == MATRIX_BYTES for output in outputs)
    for memory, copy in _copies(fusion):
        places = places_of(domains, product, copy)
        has[memory] = any(p in shape.rows for p in places), any(p in shape.columns for p in places)
        fits = upright or (turned and memory in outputs and product.ends is None)
        fits = fits and not _out_of_order(fusion, product, memory, copy)
        if fits and _unfit_box(memory, problem):
            fits = memory in outputs and product.ends is None and all(has[memory])
            if fits:
                by_rows[memory.name] = _at_once(memory, problem)
        moved[memory] = moved.get(memory, True) and fits
    if not all(fits for memory, fits in moved.items() if memory not in outputs):
        # two bytes are staged at once: one of the last two would be of what nobody loaded
        for memory in outputs:
            if by_rows.get(memory.name) == memory.dtype.size == 1:
                moved[memory] = not by_rows.pop(memory.name)
    boxes = [memory for memory, fits in moved.items() if fits]

    def sizes(rows: bool, columns: bool, stored: bool = False) -> tuple[int, ...]:
        chosen = (m for m in boxes if (m in outputs) == stored and has[m] == (rows, columns))
        return tuple(m.dtype.size for m in chosen)

    return Beside(
        loaded=tuple(memory.name for memory in boxes if memory not in outputs),
        staged=tuple(memory.name for memory in boxes if memory in outputs),
        by_rows=tuple(by_rows.items()),
        pairs=_pairs(fusion, product, shape, problem),
        out=sum(sizes(True, True, stored=True)),
        planes=sizes(True, True),
        row=sum(sizes(True, False)),
        column=sum(sizes(False, True)),
        widest=max((memory.dtype.size for memory in boxes), default=0),
        by_threads=sum(
            m.dtype.size for m in moved if not (moved[m] or m in outputs) and all(has[m])
        ),
        like_operands=all(m.dtype == product.a.dtype for m in boxes if m not in outputs),
    )


def box_refusal(
    fusion: Program, product: Matmul, memory: TensorView, copy: TensorView, problem: Problem
) -> str:
    """Why the TMA unit does not copy chunks of a tile between an input, or an output, and shared
    memory.

    Args:
        copy: the tensor that is a copy of an input; an output itself.
    """
    return _out_of_order(fusion, product, memory, copy) or _unfit_box(memory, problem)


def _unfit_box(memory: TensorView, problem: Problem) -> str:
    """The address or the row of a tensor that the TMA unit does not take; empty where there is
    none.
    """
    order = memory.concrete_order()
    columns = problem.size(memory.shape_axes[order[-1]].extent) * memory.dtype.size
    if columns % TMA_BYTES and len(order) > 1:
        return f"{memory.name} has rows of {columns} bytes"
    return unfit_rows(memory, problem)


def _out_of_order(fusion: Program, product: Matmul, memory: TensorView, copy: TensorView) -> str:
    """Why chunks of a tile are no rows of an input, or of an output, one behind the other."""
    if any(output.value is memory and output.place for output in fusion.outputs):
        return f"{memory.name} is a part of an input"
    shape, order = shape_of(product), memory.concrete_order()
    name, places = memory.name, places_of(map_of(fusion), product, copy)
    walked = [place for d in order if (place := places[d]) is not None]
    if len(walked) < len(order):
        return f"{name} has dimensions that the product's are not"
    if not walked or walked != sorted(walked) or not memory.contiguity[order[-1]]:
        return f"{name} is not contiguous along n, with rows and batches in order"
    rows = [place for place in walked if place in shape.rows]
    last = (*shape.rows[-1:], *shape.columns)
    if walked[-1] not in last or len(rows) not in (0, len(shape.rows)):
        return f"{name} has neither the rows of the product nor its columns"
    apart = [place for d, place in zip(order, walked, strict=True) if not memory.contiguity[d]]
    if any(place in shape.rows[:-1] for place in apart):
        return f"the rows of {name} are not one dimension of memory"
    if apart and len(order) > MAP_RANK:
        return f"{name} has {len(order)} dimensions apart"
    return ""


def _at_once(memory: TensorView, problem: Problem) -> int:
    """Neighbours of an output's rows that a thread can store at once, wherever a row begins."""
    each = TMA_BYTES // memory.dtype.size
    while each > 1 and not _fits(memory, each, problem):
        each //= 2
    return each


def _fits(memory: TensorView, each: int, problem: Problem) -> bool:
    """Whether rows of a tensor are so many elements at a time, wherever one begins."""
    columns = problem.size(memory.shape_axes[memory.concrete_order()[-1]].extent)
    steps = (columns, *_strides(memory, problem).values())
    return problem.aligned(memory, each) and all(step % each == 0 for step in steps)


def unstaged(fusion: Program, product: Matmul, problem: Problem) -> str:
    """Why the TMA unit does not store a result; empty where it stores all."""
    outputs = _whole(fusion)
    refusals = (box_refusal(fusion, product, each, each, problem) for each in outputs)
    return next(filter(None, refusals), "")


def _pairs(fusion: Program, product: Matmul, shape: Shape, problem: Problem) -> tuple[str, ...]:
    """Names of the tensors that threads can access two neighbouring columns of at once."""
    domains, fastest = map_of(fusion), shape.columns[-1]
    if problem.size(product.output.root[fastest].extent) % PAIR:
        return ()
    found: dict[str, bool] = {}
    for memory, copy in _copies(fusion):
        order, places = memory.concrete_order(), places_of(domains, product, copy)
        fits = bool(order) and places[order[-1]] == fastest and bool(memory.contiguity[order[-1]])
        fits = fits and _fits(memory, PAIR, problem)
        found[memory.name] = found.get(memory.name, True) and fits
    for read, memory in reads_beside(fusion, product):
        fits = reads_pairs(read) and _fits(memory, PAIR, problem) and shape == shape_of(product)
        found[memory.name] = found.get(memory.name, True) and fits
    return tuple(name for name, fits in found.items() if fits)


def in_fours(fusion: Program, product: Matmul, problem: Problem) -> tuple[str, ...]:
    """Names of the scales along k of which threads can copy four neighbours at once."""
    blocks = carried(fusion, product)
    found: dict[str, bool] = {}
    for memory in map(scale_input, () if blocks is None else blocks.scales):
        together = bool(memory.contiguity[memory.concrete_order()[-1]])
        fits = memory.dtype.size * FOUR == TMA_BYTES and together and _fits(memory, FOUR, problem)
        found[memory.name] = found.get(memory.name, True) and fits
    return tuple(name for name, fits in found.items() if fits)


def _copies(fusion: Program) -> Iterator[tuple[TensorView, TensorView]]:
    """Each tensor in global memory with the tensor that its copy makes, but for what operands need
    and for what scales them.
    """
    products = [op for op in fusion.operations if isinstance(op, Matmul)]
    blocks = carried(fusion, products[0])
    operands = [operand for op in products for operand in (op.a, op.b)]
    inside = {out for op in fusion.depends_on(operands) for out in op.outputs}
    inside.update(() if blocks is None else blocks.loads)
    for tensor in fusion.input_tensors:
        for use in fusion.uses(tensor):
            if use.outputs[0] not in inside and not in_memory(use, tensor):
                yield tensor, use.outputs[0]
    for output in _whole(fusion):
        yield output, output


def _whole(fusion: Program) -> list[TensorView]:
    """The results but those that are partial, which threads store."""
    outputs = dict.fromkeys(output.value for output in fusion.outputs)
    return [output for output in outputs if not has_parts(output)]
