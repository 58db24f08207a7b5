"""The ways to keep a row in registers from one stage to the next, and what each takes.

A way says what is loaded late and what is computed again; registers, and operations, are counted of
the program as it stands, in which nothing has been computed again yet.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from warpsmith.ir import integers
from warpsmith.ir.derivation import Derivation
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Pointwise, Reduction, tensor_inputs
from warpsmith.ir.mapping import DomainMap, map_of
from warpsmith.ir.program import Program
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import is_one_row
from warpsmith.schedulers.reduction.applicability import reductions
from warpsmith.schedulers.rows.applicability import walks_rows
from warpsmith.schedulers.rows.recompute import COSTLY, NOT_REPEATED, Run, runs_of
from warpsmith.values import dataclass

REGISTER_BYTES = 4


@dataclass(frozen=True, slots=True)
class Life:
    """From which stage to which one a tensor that walks rows is in registers, `size` bytes each.

    What is loaded before anything else is made in stage -1.
    """

    size: int
    made: int
    last: int


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to keep a row in registers.

    Attributes:
        reload_weights: inputs that all rows share are loaded where they are used, not at the start.
        again: costly values are computed again, too, where that takes fewer bytes.
        lives: what is in registers for longer than one vector takes.
        reread: the same beside inputs, where each stage reads these from shared memory.
        passing: bytes of the late inputs' elements, of which there is a vector each.
        operations: for each element of a row, in all stages.
        costly: how many of them take ten instructions or more.
        kept: how many are computed again only to save registers.
    """

    reload_weights: bool
    again: bool
    lives: tuple[Life, ...]
    reread: tuple[Life, ...]
    passing: int
    operations: int
    costly: int
    kept: int

    def bytes_per_element(self, vector: int = 4) -> int:
        """Register bytes that each element of a row takes between the stages where it takes most.

        Within a stage, what is made of a vector takes the place of what it was made of. Elements
        of a narrower `vector` than a register has do not share one.
        """
        return _most(self.lives, vector)

    def bytes_beside_inputs(self, vector: int = 4) -> int:
        """The same where each stage reads inputs from shared memory."""
        return _most(self.reread, vector)


def _most(lives: Sequence[Life], vector: int) -> int:
    """Bytes that live at once between two stages, at most."""
    least = max(1, REGISTER_BYTES // vector)
    last = max((life.last for life in lives), default=0)
    return max(
        sum(max(life.size, least) for life in lives if life.made <= stage < life.last)
        for stage in range(-1, last + 1)
    )


def choices(
    program: Program, caches: tuple[Cached, ...], *, turns: bool = False
) -> tuple[Choice, ...]:
    """The ways, those of the fewest instructions and waits first.

    The program has caches. With `turns`, blocks loop over rows: what all rows share is there in any
    case.
    """
    program = program.without(())
    rows = walks_rows(program)
    full = full_size(program, map_of(program), caches)
    loads = {c.register for c in caches if c.load}
    shared = {c.register for c in caches if c.load and c.register in rows - full}
    passing = sum(tensor.dtype.size for tensor in shared)
    found: list[Choice] = []
    for again in (False, True):
        runs = runs_of(program, again=again, there=shared if turns else ())
        beside = runs_of(program, again=again, there=loads) if turns else runs
        reread = _lives(program, rows - loads, beside, ()) if turns else ()
        counts = _counts(program, rows, runs)
        for late in (False, True) if shared else (False,):
            lives = _lives(program, rows, runs, loads & full if late else loads)
            found.append(Choice(late, again, lives, reread, passing if late else 0, *counts))
    kept = [choice.lives for choice in found if not choice.again]
    return tuple(choice for choice in found if not choice.again or choice.lives not in kept)


def weights_of(program: Program, caches: tuple[Cached, ...]) -> tuple[Cached, ...]:
    """The inputs that all rows share."""
    program = program.without(())
    full, rows = full_size(program, map_of(program), caches), walks_rows(program)
    return tuple(c for c in caches if c.load and c.register in rows - full)


def role_may_share(
    program: Program,
    domains: DomainMap,
    full: Iterable[Cached],
    weights: Sequence[Cached],
    row: Sequence[IterDomain],
) -> bool:
    """Whether a role may bring what all rows share to shared memory: each is one row, and no result
    is made of it alone, since the loops of that would use it up before those of the `full` rows.
    """
    rows, alone = ({cached.register for cached in given} for given in (full, weights))
    for operation in program.operations:
        sources = tensor_inputs(operation)
        if isinstance(operation, Reduction) or not rows.isdisjoint(sources):
            rows.update(operation.outputs)
        elif not alone.isdisjoint(sources):
            alone.update(operation.outputs)
    apart = any(output.value in alone for output in program.outputs)
    return not apart and all(is_one_row(cached, domains, row) for cached in weights)


def _counts(
    program: Program, rows: Collection[TensorView], runs: Mapping[TensorView, Run]
) -> tuple[int, int, int]:
    """Operations on each element of a row; costly ones among them, and those not to be repeated."""
    total = costly = kept = 0
    for operation in program.operations:
        output = operation.outputs[0]
        if isinstance(operation, Reduction) or output in rows:
            times = len(runs[output].stages)
            total += times
            if isinstance(operation, Pointwise):
                costly += times * (operation.op in COSTLY)
                kept += times * (operation.op in NOT_REPEATED)
    return total, costly, kept


def _lives(
    program: Program,
    rows: Collection[TensorView],
    runs: Mapping[TensorView, Run],
    first: Collection[TensorView],
) -> tuple[Life, ...]:
    """What is in registers, where the tensors in `first` are loaded before anything else."""
    found: list[Life] = []
    for operation in program.operations:
        output = operation.outputs[0]
        if output not in rows or len(runs[output].stages) > 1:  # each stage then uses its own
            continue
        used, early = runs[output].used, output in first
        if len(used) > 1 or (used and early):
            found.append(Life(output.dtype.size, -1 if early else min(used), max(used)))
    return tuple(found)


def full_size(program: Program, domains: DomainMap, caches: tuple[Cached, ...]) -> set[TensorView]:
    """The register copies that have an element for each one that is reduced, reshaped or not."""
    reduced = reductions(program)[0].logical
    whole, elements = domains.groups(reduced), _elements(domains, reduced)
    of_rows = Derivation(domains, dict.fromkeys(whole, integers.ZERO))
    found = set()
    for cached in caches:
        axes = cached.copy.shape_axes
        same = _elements(domains, axes) == elements
        own = domains.groups(axes)
        here = Derivation(domains, dict.fromkeys(own, integers.ZERO))
        if same or (all(map(of_rows.reaches, own)) and all(map(here.reaches, whole))):
            found.add(cached.register)
    return found


def _elements(domains: DomainMap, axes: tuple[IterDomain, ...]) -> Expr:
    return integers.mul(*(domains.extent_of(axis) for axis in axes if not axis.is_broadcast))
