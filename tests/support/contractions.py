"""Products of any operands: any order of dimensions, layout, type and pointwise work."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

from tests.support.launching import check_automatic, random_inputs
from tests.support.program import Program
from warpsmith.ir.domains import IterDomain, IterType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Matmul
from warpsmith.ir.tensor import TensorView
from warpsmith.kernel.kernel import Kernel

EXTENTS = (1, 2, 3, 4, 5, 7, 8, 13, 16, 24, 31, 33)
DEPTHS = (0, 1, 2, 7, 16, 17, 40, 64, 131)
TYPES = (DataType.Float, DataType.Half, DataType.BFloat16, DataType.Double)

Axes = tuple[tuple[int, ...], tuple[int, ...]]


def contraction(
    p: Program, a: TensorView, b: TensorView, axes: Axes, dtype: DataType = DataType.Float
) -> TensorView:
    """The product whose root axes are those that `axes` names, summed in `dtype`."""
    last = max(axes[0])
    found: list[IterDomain] = []
    for place in range(last + 1):
        own = [
            t.shape_axes[of.index(place)] for t, of in zip((a, b), axes, strict=True) if place in of
        ]
        best = next((axis for axis in own if not axis.is_broadcast), own[0])
        kind = IterType.reduction if place == last else best.kind
        found.append(IterDomain(best.extent, kind))
    output = p.fusion.tensor(dtype, tuple(found))
    p.fusion.append(Matmul(a, b, output, axes))
    return output


@dataclass
class RandomContraction:
    """A product with pointwise work around it, grown from one seed.

    Attributes:
        shapes: of its inputs, by name.
        terms: that are summed.
    """

    seed: int
    program: Program = field(default_factory=Program)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    terms: int = 0

    def __post_init__(self) -> None:
        self._random = Random(self.seed)
        choice = self._random.choice
        batches, rows, columns = choice((0, 0, 1, 2)), choice((0, 1, 1, 1, 2)), choice((0, 1, 1, 2))
        kept = batches + rows + columns
        sizes = [choice(EXTENTS) for _ in range(kept)]
        sizes = [min(size, 4) if place < batches else size for place, size in enumerate(sizes)]
        if choice((False,) * 9 + (True,)) and sizes:
            sizes[choice(range(kept))] = 0
        self.terms = choice(DEPTHS)
        sizes.append(self.terms)
        dtype = choice(TYPES)
        wide = DataType.Double if dtype is DataType.Double else DataType.Float
        of_a = [*range(batches + rows), kept]
        of_b = [*range(batches), *range(batches + rows, kept), kept]
        self._random.shuffle(of_a)
        self._random.shuffle(of_b)
        a, b = (self._operand(dtype, of, sizes, batches) for of in (of_a, of_b))
        result = contraction(self.program, a, b, (tuple(of_a), tuple(of_b)), wide)
        self._results(result, sizes[:-1], dtype)

    def _operand(
        self, dtype: DataType, own: Sequence[int], sizes: Sequence[int], batches: int
    ) -> TensorView:
        """An input, or something computed from some, with these axes of the product."""
        choice = self._random.choice
        once = {place for place in own if place < batches and choice((True, False, False))}
        shape = tuple(1 if place in once else sizes[place] for place in own)
        known = [1 if place in once else None for place in own]
        found = self._input(dtype, known, shape)
        match choice(("plain", "plain", "computed", "scaled")):
            case "computed":  # exactly: the reference rounds nothing to 16 bits
                found = self.program.cast(self.program.op("neg", found), dtype)
            case "scaled":
                along = choice(range(len(own)))
                row = self._input(dtype, [known[along]], (shape[along],))
                flags = [place != along for place in range(len(own))]
                scale = self.program.broadcast(row, flags)
                found = self.program.cast(self.program.op("maximum", found, scale), dtype)
        return found

    def _input(
        self, dtype: DataType, sizes: Sequence[int | None], shape: tuple[int, ...]
    ) -> TensorView:
        order = list(range(len(sizes)))
        if self._random.random() < 0.5:
            self._random.shuffle(order)
        strided = self._random.random() < 0.3
        contiguity = [
            None if size == 1 else not (strided and self._random.random() < 0.5) for size in sizes
        ]
        tensor = self.program.input(dtype, sizes, stride_order=order, contiguity=contiguity)
        self.shapes[tensor.name] = shape
        return tensor

    def _results(self, result: TensorView, sizes: Sequence[int], dtype: DataType) -> None:
        """One output to three, the sums among them, in any memory order."""
        p, choice = self.program, self._random.choice
        made = [result]
        rank = result.rank
        if rank and choice((True, False)):
            along = choice(range(rank))
            one = result.shape_axes[along].is_broadcast
            row = self._input(dtype, [1 if one else None], (1 if one else sizes[along],))
            bias = p.broadcast(row, [place != along for place in range(rank)])
            made.append(p.op("add", result, bias))
        if rank > 1 and choice((True, False)):
            order = list(range(rank))
            self._random.shuffle(order)
            made.append(p.permute(made[-1], order))
        if choice((True, False)):
            wide = dtype is DataType.Double
            made.append(p.cast(p.op("neg", made[-1]), choice(TYPES if wide else TYPES[:-1])))
        kept = list({id(t): t for t in (made[-1], choice(made), choice(made))}.values())
        for tensor in kept:
            order = list(range(tensor.rank))
            if choice((True, False)):
                self._random.shuffle(order)
            p.output(tensor, stride_order=order)


def run(seed: int) -> Kernel:
    """The random product of a seed, held against float64; its kernel."""
    made = RandomContraction(seed)
    choice = Random(seed)
    fusion = made.program.fusion
    inputs = random_inputs(fusion, made.shapes, seed)
    alignment = {t.name: choice.choice((16, 16, 8, 4, 2)) for t in fusion.input_tensors}
    candidate, kernel = check_automatic(
        fusion,
        inputs,
        alignment=alignment if choice.random() < 0.3 else None,
        splits=choice.choice((None, 1, 2, 3)),
        index_type=choice.choice((DataType.Int32, DataType.Int)),
        terms=4 * made.terms + 4,
        without=(("matmul", "threads are to multiply"),),
    )
    assert candidate.scheduler == "matmul_by_threads"
    return kernel
