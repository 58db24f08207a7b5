"""The parts of attention that goes through keys by tiles, and when the scheduler takes it."""

from __future__ import annotations

from collections.abc import Sequence

from warpsmith.ir import integers
from warpsmith.ir.arithmetic import convert
from warpsmith.ir.carry import simple
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.exprs import Full, Iota, Matmul, Move, Pointwise, Reduction, tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.levels import has_levels
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Const
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.liveness import remove_dead
from warpsmith.schedulers.attention.loops import CHUNK, MOST_ROWS
from warpsmith.schedulers.pointwise.applicability import cached_map
from warpsmith.values import dataclass

RENAMES = ("broadcast", "expand", "permute")


@dataclass(frozen=True, slots=True)
class Shape:
    """The tensors between which loops change, with their dimensions; `..` are apart.

    Attributes:
        scores: of keys and queries, `[.., tiles, keys, rows]`, summed over `depth`.
        weights: made of these, of 16 bits.
        top, total: of a tile, `[.., tiles, rows]`.
        sums: of values and weights, `[.., tiles, columns, rows]`, summed over `keys`.
        joined: those of all tiles, `[.., columns, rows]`: three results.
        keys, values: `[.., tiles, keys, depth]` and `[.., tiles, keys, columns]`.
        query: `[.., rows, depth]`.
    """

    scores: TensorView
    weights: TensorView
    top: TensorView
    total: TensorView
    sums: TensorView
    joined: tuple[TensorView, ...]
    keys: TensorView
    values: TensorView
    query: TensorView

    @property
    def axes(self) -> dict[str, list[IterDomain]]:
        """By letter: P what is apart, C tiles, T keys of one, R rows, D depth, E columns."""
        *apart, tiles, keys, rows = self.weights.logical
        depth, columns = self.keys.logical[-1], self.values.logical[-1]
        known = {"C": tiles, "T": keys, "R": rows, "D": depth, "E": columns}
        return {"P": apart, **{letter: [axis] for letter, axis in known.items()}}

    def extent(self, letter: str) -> int | None:
        """Of a dimension that the definition knows."""
        (axis,) = self.axes[letter]
        return integers.constant(axis.extent)


def shape_of(program: Program) -> Shape | None:
    """The attention that a program is; None where it is none, or has other reductions."""
    reductions = [op for op in program.operations if isinstance(op, Reduction)]
    joined = [op for op in reductions if has_levels(op) and len(op.outputs) == 3]
    if len(reductions) != 5 or len(joined) != 1:
        return None
    states = [value for value in joined[0].sources if isinstance(value, TensorView)]
    if len(states) != 3:
        return None
    top, total, sums = map(_renamed, states)
    others = [op for op in reductions if op not in joined]
    scores = [op.output for op in others if op.output not in (top, total, sums)]
    if len(scores) != 1 or not {top, total, sums} <= {op.output for op in others}:
        return None
    domains = cached_map(program)
    multiplied = [_operands(each, domains) for each in (scores[0], sums)]
    if multiplied[0] is None or multiplied[1] is None:
        return None
    (keys, query), (values, weights) = multiplied[0], multiplied[1]
    shape = Shape(scores[0], weights, top, total, sums, joined[0].outputs, keys, values, query)
    return shape if _is_tiles(keys) and _is_tiles(values) and _fits(shape, domains) else None


def _renamed(value: TensorView) -> TensorView:
    """What a tensor is by other names."""
    while isinstance(move := value.definition, Move) and move.kind in RENAMES:
        value = move.source
    return value


def _is_tiles(tensor: TensorView) -> bool:
    move = tensor.definition
    return isinstance(move, Move) and move.kind == "tiles"


def _operands(summed: TensorView, domains: DomainMap) -> tuple[TensorView, TensorView] | None:
    """Two tensors of 16 bits whose products are summed; None where it is another sum."""
    made = summed.definition
    if not isinstance(made, Reduction) or made.carry != simple("sum", DataType.Float):
        return None
    (product,) = tensor_inputs(made)
    made = product.definition
    if not isinstance(made, Pointwise) or made.op != "mul" or len(tensor_inputs(made)) != 2:
        return None
    a, b = (_narrow(_renamed(each), domains) for each in tensor_inputs(made))
    return (a, b) if a is not None and b is not None else None


def _narrow(wide: TensorView, domains: DomainMap) -> TensorView | None:
    """What was widened to Float, and, of tiles, filled up; None where nothing was."""
    made = wide.definition
    if not isinstance(made, Pointwise) or made.op != "cast":
        return None
    (narrow,) = tensor_inputs(made)
    if narrow.dtype.size != 2 or not narrow.dtype.is_float or wide.dtype.size != 4:
        return None
    tiles = _before_filling(narrow, domains)
    return narrow if tiles is None else tiles


def _before_filling(tensor: TensorView, domains: DomainMap) -> TensorView | None:
    """The tiles that a tensor has with zeros past their end, as `ops.tiles` gives; else None."""
    filled = _as_wide(tensor)
    made = filled.definition
    if not isinstance(made, Pointwise) or made.op != "where" or len(tensor_inputs(made)) != 2:
        return None
    there, tiles = tensor_inputs(made)
    tiles, zero = _as_wide(tiles), made.inputs[2]
    exact = tiles.dtype is tensor.dtype and isinstance(zero, Const) and zero.value == 0
    return tiles if exact and _is_tiles(tiles) and _says_inside(there, tiles, domains) else None


def _as_wide(tensor: TensorView) -> TensorView:
    """What a tensor is a cast of, to Float or from there; or the tensor."""
    made = tensor.definition
    if not isinstance(made, Pointwise) or made.op != "cast":
        return tensor
    (source,) = tensor_inputs(made)
    return source if DataType.Float in (source.dtype, tensor.dtype) else tensor


def _says_inside(there: TensorView, tiles: TensorView, domains: DomainMap) -> bool:
    """Whether a condition tells which elements of which tiles there are."""
    move, less = tiles.definition, _renamed(there).definition
    assert isinstance(move, Move)
    place, size = move.tiles
    if not isinstance(less, Pointwise) or less.op != "lt" or len(tensor_inputs(less)) != 1:
        return False
    (places,), bound = tensor_inputs(less), less.inputs[1]
    extent = move.source.shape_axes[place].extent
    added = places.definition
    if bound != convert(extent, places.dtype) or not isinstance(added, Pointwise):
        return False
    counted = [_renamed(each) for each in tensor_inputs(added)]
    steps = [each.definition for each in counted]
    axes = [domains.group(axis) for each in counted for axis in each.logical]
    own = [domains.group(axis) for axis in tiles.logical[place : place + 2]]
    return (
        added.op == "add"
        and axes == own
        and all(isinstance(op, Iota) and _is_zero(op.start) for op in steps)
        and [op.step for op in steps if isinstance(op, Iota)]
        == [convert(Const(n), places.dtype) for n in (size, 1)]
    )


def _is_zero(value: object) -> bool:
    return isinstance(value, Const) and value.value == 0


def _fits(shape: Shape, domains: DomainMap) -> bool:
    """Whether tensors have the dimensions that `Shape` says, in that order."""
    letters = {
        letter: [_group(axis, domains) for axis in axes] for letter, axes in shape.axes.items()
    }
    wanted = {
        "PCTRD": shape.scores.root,
        "PCTR": shape.top.root,
        "PCERT": shape.sums.root,
        "PCER": shape.joined[0].root,
        "PCTD": shape.keys.logical,
        "PCTE": shape.values.logical,
        "PRD": shape.query.logical,
    }
    found = [*wanted.items(), ("PCTR", shape.total.root)]
    return all(
        [g for letter in name for g in letters[letter]] == [_group(a, domains) for a in axes]
        for name, axes in found
    )


def _group(axis: IterDomain, domains: DomainMap) -> Group | None:
    return None if axis.is_broadcast else domains.group(axis)


def with_products(fusion: Fusion) -> None:
    """Have tensor cores sum products, of tiles that are filled up as they are loaded."""
    shape = shape_of(fusion)
    assert shape is not None
    n = len(shape.axes["P"])
    apart = tuple(range(n))
    scores = (n, n + 1, n + 3), (n + 2, n + 3)  # of P, C, T, R, D those of keys, and of queries
    sums = (n, n + 3, n + 1), (n, n + 3, n + 2)  # of P, C, E, R, T those of values, and of weights
    _multiply(fusion, shape.scores, (shape.keys, shape.query), apart, scores)
    _multiply(fusion, shape.sums, (shape.values, shape.weights), apart, sums)
    remove_dead(fusion)


def _multiply(
    fusion: Fusion,
    summed: TensorView,
    operands: tuple[TensorView, TensorView],
    apart: tuple[int, ...],
    places: Sequence[tuple[int, ...]],
) -> None:
    assert summed.definition is not None
    first, second = ((*apart, *own) for own in places)
    fusion.replace(summed.definition, Matmul(*operands, summed, (first, second)))


def products_of(fusion: Fusion) -> Shape:
    """The attention that a program with products is."""
    (joined,) = (op for op in fusion.operations if isinstance(op, Reduction) and has_levels(op))
    top, total, sums = map(_renamed, tensor_inputs(joined))
    products = {op.output: op for op in fusion.operations if isinstance(op, Matmul)}
    second = products.pop(sums)
    (first,) = products.values()
    return Shape(
        scores=first.output,
        weights=second.b,
        top=top,
        total=total,
        sums=sums,
        joined=joined.outputs,
        keys=first.a,
        values=second.a,
        query=first.b,
    )


def refusal(fusion: Program) -> str:
    """Why the scheduler cannot take the fusion; empty when it can."""
    shape = shape_of(fusion)
    if shape is None:
        return "it is no attention by tiles of keys"
    rows, depth, columns, keys = (shape.extent(letter) for letter in "RDET")
    if rows is None or not 1 < rows <= MOST_ROWS:
        return f"it has {rows or 'any number of'} rows of queries for a head of keys"
    if depth is None or columns is None or depth % CHUNK or columns % CHUNK:
        return f"queries or values are no multiples of {CHUNK} elements"
    if keys is None or keys % CHUNK:
        return f"a tile has no multiple of {CHUNK} keys"
    sources = [t.definition.inputs[0] for t in (shape.keys, shape.values) if t.definition]
    for tensor in (shape.query, *sources):
        if not isinstance(tensor, TensorView) or not tensor.is_input:
            return f"{tensor} is computed, and not loaded"
        if tensor is not shape.query and tensor.concrete_order()[-1] != tensor.rank - 1:
            return f"rows of {tensor.name} do not lie together in memory"
    if len({shape.query, *sources}) < 3:
        return "its queries, keys and values are not three tensors"
    for op in fusion.operations:
        if not isinstance(op, Full | Iota | Move | Pointwise | Reduction):
            return f"{op.outputs[0].name} is no pointwise work beside attention"
    behind = fusion.after(lambda op: op.outputs == shape.joined)
    for output in fusion.outputs:
        if output.value not in behind or output.value in shape.joined:
            return f"its output {output.value.name} does not follow from all tiles"
    return ""
