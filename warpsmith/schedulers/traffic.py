"""How long a kernel takes that no model of its own predicts: what it moves, and what it computes.

Memory, the L2 and the issue of instructions work at the same time, so the slowest of them counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from warpsmith.ir.domains import IterDomain
from warpsmith.ir.exprs import Pointwise, Reduction
from warpsmith.ir.mapping import DomainMap, Group
from warpsmith.ir.program import Program
from warpsmith.ir.reads import Read
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedulers.caching import Cached
from warpsmith.schedulers.layout import parts_of
from warpsmith.schedulers.pointwise.applicability import beyond
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.recompute import COSTLY
from warpsmith.targets.family import WARP
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

MEMORY_SHARE = 0.831
"""Of the memory's rate, what a copy of much memory reads and writes (one H200, 2026-11)."""

SECTOR = 32
"""Bytes that the L2 gives or takes at least."""

PIECE_CYCLES = 2
"""Of a multiprocessor for each part of a sector that is stored, as it goes to the L2 by itself. Of
three kernels that stored 2 bytes of each sector, 0.8, where lanes of a warp had several of one, 1.2
and 3.4, where each had its own (one H200, 2026-11-28)."""

ISSUE_SHARE = 0.5
"""Of the instructions that can be issued, those of operations. Assumed: nobody has timed it."""

VECTOR = 8
"""Neighbouring elements of a thread, for which it computes once what they share: 16 bytes of a
16-bit type."""

INSTRUCTIONS = {"philox": 30, "sin": 40, "cos": 40, "tan": 40, "pow": 40}
COSTLY_INSTRUCTIONS = 12
"""Of an operation on one element, those that run: as NVRTC 13 makes them, where arguments are no
larger than 100,000; of the other operations of ten and more some twelve."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What a kernel does in a call.

    Attributes:
        moved: bytes of memory, each once.
        sectors: bytes between the L2 and multiprocessors: whole sectors for each warp.
        issued: instructions of operations on single elements.
        partly: bytes of memory besides: of sectors that are written in part, each of which is read
            before, and written whole; and of those that are read in part, and again when the L2 has
            let them go.
        across: names of the tensors that are read or written in sectors apart.
        pieces: parts of sectors that warps store.
    """

    moved: int
    sectors: float
    issued: float
    partly: float = 0.0
    across: frozenset[str] = frozenset()
    pieces: float = 0.0

    def busy(self, target: Target) -> dict[str, float]:
        """Microseconds for which each resource works."""
        rates = target.rates
        lanes = ISSUE_SHARE * WARP * target.sm_issues * target.sm_count
        return {
            "memory": (self.moved + self.partly) / (MEMORY_SHARE * rates.memory),
            "L2": self.sectors / rates.l2,
            "stores": PIECE_CYCLES * self.pieces / (target.sm_count * rates.clock),
            "instructions": self.issued / lanes,
        }

    def us(self, target: Target) -> float:
        """Microseconds of the kernel."""
        return target.rates.launch_us + max(self.busy(target).values())


def moved_us(size: int, target: Target) -> float:
    """Microseconds of a kernel that moves so many bytes of memory."""
    return Traffic(size, 0.0, 0.0).us(target)


def traffic(
    fusion: Program,
    domains: DomainMap,
    caches: Sequence[Cached],
    axes: Sequence[IterDomain],
    problem: Problem,
    staged: Sequence[str] = (),
    rows: tuple[Sequence[IterDomain], int] = ((), 1),
) -> Traffic:
    """What a kernel moves and computes that walks some dimensions.

    Args:
        axes: of its loops, slowest first; threads lie side by side along the last one.
        staged: names of tensors that lie along another one, and pass through shared memory.
        rows: all axes but some, and how many elements along those a thread has at once, for which
            it computes once what has none of them.
    """
    extents = {g: problem.size(domains.extent(g)) for a in axes for g in [domains.group(a)]}
    tensors = {cached.memory: cached for cached in caches}
    sizes = {memory: elements(memory, problem) * memory.dtype.size for memory in tensors}
    spread = {
        memory: 1.0 if memory.name in staged else _spread(domains, cached, extents)
        for memory, cached in tensors.items()
    }
    elsewhere = bytes_elsewhere(fusion, problem)
    across = {memory for memory in tensors if spread[memory] > 1}
    written = [memory for memory in across if not tensors[memory].load]
    return Traffic(
        moved=sum(sizes.values()) + elsewhere,
        sectors=sum(size * spread[memory] for memory, size in sizes.items()) + elsewhere,
        issued=_issued(fusion, domains, extents, problem, rows),
        partly=_partly([(sizes[memory], spread[memory]) for memory in written], problem)
        + sum(
            (spread[memory] - 1) * sizes[memory]
            for memory in across.difference(written)
            if _comes_late(domains, tensors[memory], extents, problem)
        ),
        across=frozenset(memory.name for memory in across),
        pieces=sum(sizes[memory] * spread[memory] for memory in written) / SECTOR,
    )


def bytes_elsewhere(fusion: Program, problem: Problem) -> int:
    """Bytes of what is read at computed places: of each tensor all at most, and once."""
    found: dict[TensorView, int] = {}
    for operation in fusion.operations:
        if isinstance(operation, Read):
            axes = (axis for axis in operation.output.root if not axis.is_broadcast)
            count = prod(problem.size(axis.extent) for axis in axes)
            for source in dict.fromkeys(operation.sources):
                found[source] = found.get(source, 0) + count * source.dtype.size
    return sum(min(size, problem.bytes_of(source)) for source, size in found.items())


def _partly(across: Sequence[tuple[int, float]], problem: Problem) -> float:
    """Bytes of sectors that are written in part, besides those of the elements: both ways, once for
    each part. None where the L2 holds all of them until they are whole.

    The gradients of a gated unit, 2 of 4096 x 14336 in 16 bits, each stored along both dimensions,
    took 3,400 us on one H100, 2026-11-25, and 243 along one; by this 2,910 and 213.

    Args:
        across: bytes of each tensor that is written so, and how many times these its sectors are.
    """
    if sum(size for size, _ in across) <= problem.target.l2_bytes:
        return 0.0
    return sum((2 * spread - 1) * size for size, spread in across)


def elements(tensor: TensorView, problem: Problem) -> int:
    """Of a tensor in a call, what is repeated counted once."""
    return prod(problem.size(a.extent) for a in tensor.shape_axes if not a.is_broadcast)


def _spread(domains: DomainMap, cached: Cached, extents: dict[Group, int]) -> float:
    """How many times its bytes a tensor takes, where a warp's elements lie in sectors apart."""
    size, inside = cached.memory.dtype.size, _inside(domains, cached, extents)
    if inside is None:
        return 1.0
    beside = max(WARP * VECTOR // max(inside, 1), 1)  # of a warp, those that lie side by side
    return max(SECTOR / (size * min(beside, SECTOR // size)), 1.0)


def _inside(domains: DomainMap, cached: Cached, extents: dict[Group, int]) -> int | None:
    """Elements of a tensor that the loops come by from one to the next of its fastest dimension;
    None where that one is the loops' fastest, too.
    """
    axes = (cached.copy.shape_axes[d] for d in cached.memory.concrete_order())
    walked = [g for axis in axes for g in parts_of(domains, domains.group(axis), extents)]
    order = [group for group in extents if group in walked]
    if not order or set(walked) != set(order) or walked[-1] == order[-1]:
        return None
    return prod(extents[group] for group in order[order.index(walked[-1]) + 1 :])


def _comes_late(
    domains: DomainMap, cached: Cached, extents: dict[Group, int], problem: Problem
) -> bool:
    """Whether the L2 holds no sector from one of its elements to the next, since all others of as
    many come between.
    """
    inside = _inside(domains, cached, extents)
    return inside is not None and inside * SECTOR > problem.target.l2_bytes


def _issued(
    fusion: Program,
    domains: DomainMap,
    extents: dict[Group, int],
    problem: Problem,
    rows: tuple[Sequence[IterDomain], int],
) -> float:
    """Instructions of all operations. Those of full size run as often as the loops do; what
    reductions give, once for each of their results; of others, once for neighbours that share it.
    """
    walks, last = prod(extents.values()), next(reversed(extents), None)
    behind = fusion.after(lambda operation: isinstance(operation, Reduction))
    total = 0.0
    for operation in fusion.operations:
        output = operation.outputs[0]
        if not isinstance(operation, Pointwise | Reduction):
            continue
        root = [axis for axis in output.root if not axis.is_broadcast]
        groups = set(map(domains.group, root))
        if extents.keys() <= groups:
            times = walks
        elif output in behind:
            times = prod(problem.size(axis.extent) for axis in root)
        else:
            times = (
                walks
                if last in groups or last is None
                else walks // max(min(VECTOR, extents[last]), 1)
            )
            if rows[1] > 1 and beyond([output], domains, rows[0]) is None:
                times //= rows[1]
        total += instructions(operation) * times
    return total


def instructions(operation: Operation) -> int:
    """Of an operation on one element; copies take none."""
    if not isinstance(operation, Pointwise):
        return 1
    if operation.op == "set":
        return 0
    return INSTRUCTIONS.get(operation.op, COSTLY_INSTRUCTIONS if operation.op in COSTLY else 1)
