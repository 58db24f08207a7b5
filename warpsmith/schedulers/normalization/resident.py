"""What of a row stays in registers from one reduction to the next, and what is computed again.

The reductions that depend on one another cut the work on a row into **stages**: stage `s` has what
is computed once `s` reductions are done. What two stages read lies in registers between them, or
is computed again from fewer bytes that lie there: a row of bfloat16 stays as it was loaded, and
each stage widens it for itself.
"""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from warpsmith.ir import integers
from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import (
    Operation,
    Pointwise,
    Reduction,
    Welford,
    replace_tensor,
    tensor_inputs,
)
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.mapping import DomainMap
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView
from warpsmith.ir.twins import Known, Twins, walked_together
from warpsmith.ops.table.transcendental import TRANSCENDENTAL
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.normalization.can import stages, walks_rows
from warpsmith.schedulers.reduction.can import reductions

COSTLY = frozenset(
    {op.name for op in TRANSCENDENTAL} | {"div", "truediv", "pow", "divide_full", "philox"}
)
"""Operations of ten instructions and more."""

NOT_REPEATED = COSTLY | {"exp_near"}
"""Those that are computed again only to save registers: these, and one that takes few instructions,
but of a unit that is slow."""


@dataclass(frozen=True, slots=True)
class Life:
    """From which stage to which one a tensor that walks rows is in registers, `size` bytes each.

    What is loaded before anything else is made in stage -1. What is `kept` is computed again only
    to save registers.
    """

    size: int
    made: int
    last: int
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to keep a row in registers.

    Attributes:
        late: inputs that all rows share are loaded where they are used, not at the start.
        again: costly values are computed again, too, where that takes fewer bytes.
        lives: what is in registers for longer than one vector takes.
        passing: bytes of the late inputs' elements, of which there is a vector each.
        operations: for each element of a row, in all stages.
        costly: how many of them take ten instructions or more.
        kept: how many are computed again only to save registers.
    """

    late: bool
    again: bool
    lives: tuple[Life, ...]
    passing: int
    operations: int
    costly: int
    kept: int

    def bytes_per_element(self, least: int = 1) -> int:
        """Register bytes that each element of a row takes between the stages where it takes most.

        Within a stage, what is made of a vector takes the place of what it was made of. An element
        takes the `least` bytes where registers are not shared by several.
        """
        return _most(self.lives, least)

    def kept_bytes(self, least: int = 1) -> int:
        """The same of values that are kept alone, which stay also where rows are read again."""
        return _most([life for life in self.lives if life.kept], least)


def _most(lives: Iterable[Life], least: int) -> int:
    """Bytes that live at once between two stages, at most."""
    found = tuple(lives)
    last = max((life.last for life in found), default=0)
    return max(
        sum(max(life.size, least) for life in found if life.made <= stage < life.last)
        for stage in range(-1, last + 1)
    )


def choices(
    fusion: Fusion, caches: tuple[Cached, ...], *, turns: bool = False
) -> tuple[Choice, ...]:
    """The ways, those of the fewest instructions and waits first.

    The fusion has caches, and is not changed. With `turns`, blocks go round rows: what all rows
    share is there in any case.
    """
    full, rows = full_size(fusion, DomainMap(fusion), caches), walks_rows(fusion)
    shared = sum(
        cached.memory.dtype.size
        for cached in caches
        if cached.load and id(cached.register) in rows - full
    )
    found: list[Choice] = []
    for again in (False, True):
        twin, copies = copy.deepcopy((fusion, caches))
        compute_again(twin, again=again, there=shared_loads(twin, copies) if turns else ())
        full = full_size(twin, DomainMap(twin), copies)
        loads = {id(c.register) for c in copies if c.load}
        counts = _counts(twin)
        for late in (False, True) if shared else (False,):
            lives = _lives(twin, loads & full if late else loads)
            found.append(Choice(late, again, lives, shared if late else 0, *counts))
    kept = [choice.lives for choice in found if not choice.again]
    return tuple(choice for choice in found if not choice.again or choice.lives not in kept)


def shared_loads(fusion: Fusion, caches: tuple[Cached, ...]) -> set[int]:
    """Identities of the register copies of the inputs that all rows share."""
    full, rows = full_size(fusion, DomainMap(fusion), caches), walks_rows(fusion)
    return {id(c.register) for c in caches if c.load} & rows - full


def weights_of(fusion: Fusion, caches: tuple[Cached, ...]) -> tuple[Cached, ...]:
    """The inputs that all rows share."""
    shared = shared_loads(fusion, caches)
    return tuple(c for c in caches if c.load and id(c.register) in shared)


def compute_again(fusion: Fusion, *, again: bool, there: Collection[int] = ()) -> None:
    """Give later stages their own copies of what is cheaper to compute again than to keep.

    Costly values count as cheap only if `again`, and tensors that are `there` in any case cost
    nothing. Run it on a fusion with caches.
    """
    rows, depths = walks_rows(fusion), stages(fusion)
    origins = _Origins(fusion, rows, again=again, there=there)
    runs: dict[int, int] = {}
    for operation in reversed(list(fusion.operations)):
        output = operation.outputs[0]
        uses = _stages_of_uses(fusion, output, runs)
        runs.update({id(out): _run(operation, uses, depths) for out in operation.outputs})
        if id(output) not in rows or len(uses) < 2 or id(output) in origins.of(output):
            continue
        for stage in sorted(uses)[1:]:
            twin = _twin(fusion, output)
            runs[id(twin)] = stage
            for use in fusion.uses(output):
                if runs[id(use.outputs[0])] == stage:
                    fusion.replace(use, replace_tensor(use, output, twin))


def _counts(fusion: Fusion) -> tuple[int, int, int]:
    """Operations on each element of a row; costly ones among them, and those not to be repeated."""
    rows = walks_rows(fusion)
    done = [
        operation
        for operation in fusion.operations
        if isinstance(operation, Reduction | Welford) or id(operation.outputs[0]) in rows
    ]
    names = [operation.op for operation in done if isinstance(operation, Pointwise)]
    costly, kept = (sum(name in kind for name in names) for kind in (COSTLY, NOT_REPEATED))
    return len(done), costly, kept


def _lives(fusion: Fusion, first: set[int]) -> tuple[Life, ...]:
    """What is in registers, where the tensors in `first` are loaded before anything else."""
    rows, depths = walks_rows(fusion), stages(fusion)
    runs: dict[int, int] = {}
    found: list[Life] = []
    for operation in reversed(fusion.operations):
        output = operation.outputs[0]
        uses = _stages_of_uses(fusion, output, runs)
        runs.update({id(out): _run(operation, uses, depths) for out in operation.outputs})
        if id(output) in rows and (len(uses) > 1 or (uses and id(output) in first)):
            made = -1 if id(output) in first else min(uses)
            kept = isinstance(operation, Pointwise) and operation.op in NOT_REPEATED
            found.append(Life(output.dtype.size, made, max(uses), kept))
    return tuple(reversed(found))


def full_size(fusion: Fusion, domains: DomainMap, caches: tuple[Cached, ...]) -> set[int]:
    """Identities of the register copies that have an element for each one that is reduced."""
    whole = _elements(domains, reductions(fusion)[0].logical)
    return {
        id(cached.register)
        for cached in caches
        if _elements(domains, cached.copy.shape_axes) == whole
    }


def _elements(domains: DomainMap, axes: tuple[IterDomain, ...]) -> Expr:
    return integers.mul(*(domains.extent_of(axis) for axis in axes if not axis.is_broadcast))


class _Origins:
    """From what each tensor is computed again with the fewest bytes of registers."""

    def __init__(
        self, fusion: Fusion, rows: set[int], *, again: bool, there: Collection[int]
    ) -> None:
        self._rows = rows
        self._again = again
        self._there = frozenset(there)
        self._inputs = set(map(id, fusion.input_tensors))
        self._known: dict[int, dict[int, TensorView]] = {}

    def of(self, tensor: TensorView) -> dict[int, TensorView]:
        """Tensors that walk rows, by identity: itself where nothing before it is smaller."""
        if id(tensor) not in self._known:
            self._known[id(tensor)] = self._find(tensor)
        return self._known[id(tensor)]

    def _find(self, tensor: TensorView) -> dict[int, TensorView]:
        if id(tensor) not in self._rows:
            return {}
        definition = tensor.definition
        if isinstance(definition, Pointwise) and definition.op in NOT_REPEATED and not self._again:
            return {id(tensor): tensor}
        sources = () if definition is None else tensor_inputs(definition)
        before: dict[int, TensorView] = {}
        for source in sources:
            if id(source) in self._inputs:
                return {id(tensor): tensor}
            before |= self.of(source)
        kept = sum(t.dtype.size for key, t in before.items() if key not in self._there)
        beside = bool(self._there & before.keys())
        smaller = kept < tensor.dtype.size or (beside and kept == tensor.dtype.size)
        return before if smaller else {id(tensor): tensor}


def _stages_of_uses(fusion: Fusion, tensor: TensorView, runs: Mapping[int, int]) -> set[int]:
    return {runs[id(use.outputs[0])] for use in fusion.uses(tensor)}


def _run(operation: Operation, uses: set[int], depths: Mapping[int, int]) -> int:
    """The stage in which an operation runs: with the first that needs its result."""
    depth = depths[id(operation.outputs[0])]
    if isinstance(operation, Reduction | Welford):
        return depth - 1
    return min(uses, default=depth)


def _twin(fusion: Fusion, tensor: TensorView) -> TensorView:
    """A second tensor that the same operation computes from the same sources."""
    definition = tensor.definition
    assert definition is not None
    known: Known = {fusion: fusion, **walked_together(definition)}
    known |= {source: source for source in tensor_inputs(definition)}
    operation = Twins(known).operation(definition)
    twin = operation.outputs[0]
    twin.number = fusion.register(twin)
    fusion.insert_after(definition, operation)
    return twin
