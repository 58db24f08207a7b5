"""Reads at computed places by vectors: of which tensors, in a call, and in which loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain, Merge, ParallelType, Split
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap, Group, map_of
from warpsmith.ir.polynomials import polynomial
from warpsmith.ir.program import Program
from warpsmith.ir.reads import Own, Part, Read, at
from warpsmith.ir.scalar import Apply, Const, Expr, Symbol
from warpsmith.ir.strides import strides
from warpsmith.ir.substitution import substitute
from warpsmith.schedule.transforms import parallelize
from warpsmith.schedulers.layout import InnerRun
from warpsmith.schedulers.problem import Problem, widest_vector


def reads(fusion: Program) -> Iterator[Read]:
    """Those of a fusion."""
    return (op for op in fusion.operations if isinstance(op, Read))


def accesses_of(
    fusion: Program, domains: DomainMap, run: InnerRun, problem: Problem
) -> tuple[int, tuple[int, ...]]:
    """Elements of an access along a run, and the bytes of an element of each input that walks it:
    where none does, those that are read at computed places.
    """
    width = run.vector(problem)
    sizes = tuple(cached.memory.dtype.size for cached in run.walkers if cached.load)
    if sizes or not run.axes:
        return width, sizes
    found = _along(fusion, domains, run)
    widest = widest_vector([part.source.dtype for read in found for part in read.parts])
    while widest > 1:
        walk = [read for read in found if _walks(read, problem, widest)]
        if walk and problem.size(run.extent) % widest == 0:
            return widest, tuple(max(p.source.dtype.size for p in read.parts) for read in walk)
        widest //= 2
    return width, sizes


def single_reads(
    fusion: Program, domains: DomainMap, run: InnerRun, problem: Problem, width: int
) -> int:
    """How many reads take each element of a run alone, as no vectors of that width lie there."""
    walk = [r for r in _along(fusion, domains, run) if _walks(r, problem, width)]
    return sum(read not in walk for read in reads(fusion))


def steps_of_reads(
    fusion: Program, domains: DomainMap, run: InnerRun, problem: Problem, width: int
) -> Iterator[tuple[int, bool, bool]]:
    """Of each read along a run, bytes from one element to the next, whether vectors take them, and
    whether others lie between; where these do not go on evenly, or indices choose them, the bytes
    are those of an element.
    """
    group = domains.group(run.axes[-1]) if run.axes else None
    for read in reads(fusion):
        groups = [*map(domains.group, read.output.root)]
        steps, sizes = list[int](), list[int]()
        if group not in groups:
            continue
        along = groups.index(group)
        for part in read.parts:
            terms = polynomial(_number(problem, _place(part)))
            even = all(m == (at(along),) for m in terms if any(_has(f, along) for f in m))
            step = abs(terms.get((at(along),), 0)) if even else 1
            step = 0 if read.output.root[along].is_broadcast else step
            sizes.append(part.source.dtype.size)
            steps.append(step * sizes[-1])
        whole = width > 1 and along == _lane_of(read) and _walks(read, problem, width)
        yield max(steps, default=0), whole, steps > sizes


def _along(fusion: Program, domains: DomainMap, run: InnerRun) -> list[Read]:
    """The reads whose vectors are along a run's last dimension."""
    group = domains.group(run.axes[-1]) if run.axes else None
    inner = [(r, r.output.root[_lane_of(r)]) for r in reads(fusion) if r.output.root]
    return [read for read, last in inner if domains.group(last) == group]


def read_in_vectors(
    fusion: Program,
    domains: DomainMap,
    walked: Sequence[IterDomain],
    problem: Problem,
    width: int,
    *,
    across: bool = False,
) -> tuple[str, ...]:
    """Names of the results of which a vector's elements lie side by side, and aligned, in what is
    read, or are one: not where vectors go `across` rows.

    Args:
        walked: the dimensions of loops, of which vectors have the last one; none where it is not
            known.
    """
    if width == 1 or across:
        return ()
    fastest = domains.group(walked[-1]) if walked else None

    def lies_so(read: Read) -> bool:
        along = _lane_of(read)
        if along < len(read.output.root) - 1:
            if domains.group(read.output.root[along]) != fastest:
                return False
        elif _is_shared(read, fusion):
            return True
        return _walks(read, problem, width)

    return tuple(read.output.name for read in filter(lies_so, reads(fusion)))


def _lane_of(read: Read) -> int:
    """The result's dimension along which elements lie side by side in all that is read: the last
    one where there is none, and -1 of a scalar.
    """
    last = len(read.output.root) - 1
    places = [*map(_place, read.parts)]
    dims = (k for k in range(last, -1, -1) if all(_is_adjacent(place, k) for place in places))
    return next(dims, last)


def _is_shared(read: Read, fusion: Program) -> bool:
    """Whether neighbours along the last dimension have one element of the result, where others have
    more along it: else vectors are along another one.
    """
    axes = read.output.root
    if not (axes and axes[-1].is_broadcast):
        return False
    return any(len(t.root) == len(axes) and not t.root[-1].is_broadcast for t in fusion.tensors)


def _walks(read: Read, problem: Problem, width: int) -> bool:
    """Whether vectors along the result's dimension are such of all parts, of which each has all of
    a vector, or none, and whose indices choose whole vectors.
    """
    along, known = _lane_of(read), partial(_number, problem)
    if along < 0 or problem.size(read.output.root[along].extent) % width:
        return False
    if not all(index.shape_axes[along].is_broadcast for index in read.indices):
        return False
    for part in read.parts:
        place = _place(part)
        bounds = [bound for bound in integers.conjuncts(known(part.inside)) if _has(bound, along)]
        if not (
            problem.aligned(part.source, width)
            and _is_adjacent(_in_quotients(place, along, width, known), along)
            and _step(_in_quotients(known(place), along, width, known), along, width) == 1
            and all(_is_uniform(bound, along, width) for bound in bounds)
        ):
            return False
    return True


def _in_quotients(expr: Expr, along: int, width: int, known: Callable[[Expr], Expr]) -> Expr:
    """The expression with a symbol for each quotient that all lanes of a vector have: of what goes
    on by 1 from a multiple of the width, by another one; and rests without their `mod`.
    """

    def is_shared(node: Expr) -> bool:
        if not (isinstance(node, Apply) and node.op in ("floordiv", "mod") and _has(node, along)):
            return False
        value, divisor = map(known, node.args)
        whole = isinstance(divisor, Const) and int(divisor.value) % width == 0
        return whole and _step(value, along, width) == 1

    changed: dict[Expr, Expr] = {}
    for node in filter(is_shared, expr.walk()):
        assert isinstance(node, Apply)
        value, divisor = node.args
        quotient = changed.setdefault(
            Apply("floordiv", node.args, node.dtype), Symbol(f"quotient{len(changed)}")
        )
        if node.op == "mod":
            changed[node] = integers.sub(value, integers.mul(divisor, quotient))
    return substitute(expr, changed) if changed else expr


def _number(problem: Problem, expr: Expr) -> Expr:
    """The expression with the sizes of a call."""
    sizes: dict[Expr, Expr] = {
        node: Const(problem.values[node.name])
        for node in expr.walk()
        if isinstance(node, Symbol) and not isinstance(node, Own)
    }
    return substitute(expr, sizes) if sizes else expr


def _place(part: Part) -> Expr:
    """The element of a part's tensor, in memory: in symbols, as a kernel computes it."""
    steps = strides(part.source, [axis.extent for axis in part.source.shape_axes])
    return integers.add(*map(integers.mul, part.places, steps))


def _is_adjacent(place: Expr, along: int) -> bool:
    """Whether elements along a dimension lie side by side whatever the sizes are: a kernel has
    symbols, also of a dimension of 1 in this call, past which the elements lie.
    """
    terms = polynomial(place).items()
    walked = {m: c for m, c in terms if any(_has(factor, along) for factor in m)}
    return walked == {(at(along),): 1}


def _step(expr: Expr, along: int, width: int) -> int | None:
    """What one more of an index adds, if the rest is a multiple of the width; else None."""
    step = 0
    for monomial, coefficient in polynomial(expr).items():
        if monomial == (at(along),):
            step = coefficient
        elif coefficient % width or any(_has(factor, along) for factor in monomial):
            return None
    return step


def _is_uniform(bound: Expr, along: int, width: int) -> bool:
    """Whether `a < b` is so in all lanes of a vector or in none."""
    if not isinstance(bound, Apply) or bound.op != "lt":
        return False
    gap = integers.sub(bound.args[1], bound.args[0])
    return _step(gap, along, width) == -1 or _step(integers.sub(gap, 1), along, width) == 1


def _has(expr: Expr, along: int) -> bool:
    return any(node == at(along) for node in expr.walk())


def read_by_vectors(fusion: Fusion, names: Iterable[str], width: int) -> None:
    """Have those reads take vectors whose innermost loop, of a draft that is scheduled, is one."""
    chosen = set(names)
    found = [read for read in reads(fusion) if read.output.name in chosen]
    if not found:
        return
    domains = map_of(fusion)
    for read in found:
        output = read.output
        lane = output.loop[-1] if output.loop else None
        if lane is None or lane.parallel is not ParallelType.serial:
            continue
        walked = domains.group(output.root[_lane_of(read)])
        if domains.extent_of(lane) == integers.index(width) and _fastest(domains, lane) == walked:
            _leave(read, len(output.loop) - 1)
            parallelize(output, -1, ParallelType.vectorize)


def _fastest(domains: DomainMap, lane: IterDomain) -> Group:
    """The dimension that a vector walks: what its loop was split from, and merged last."""
    group = domains.group(lane)
    while True:
        made = [
            t
            for t in domains.touching(group)
            if (isinstance(t, Split) and domains.group(t.inner) == group)
            or (isinstance(t, Merge) and t.band == 1 and domains.group(t.axis) == group)
        ]
        if not made:
            return group
        first = made[0]
        group = domains.group(first.axis if isinstance(first, Split) else first.inner)


def _leave(read: Read, depth: int) -> None:
    """Compute a read, and its indices, outside of the loop over a vector's lanes."""
    pending = [read.output]
    while pending:
        tensor = pending.pop()
        tensor.compute_at = min(tensor.compute_at, depth)
        if tensor.definition is not None:
            sources = read.sources if tensor is read.output else ()
            pending += [
                t for t in tensor_inputs(tensor.definition) if not t.is_input and t not in sources
            ]
