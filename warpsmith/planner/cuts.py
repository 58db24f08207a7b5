"""What crosses memory between kernels, what it costs, and why they are not one."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from warpsmith.ir.clone import Clones, Known
from warpsmith.ir.exprs import tensor_inputs
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.scalar import Symbol
from warpsmith.ir.tensor import TensorView
from warpsmith.planner.other_kernels import Other, between, other
from warpsmith.planner.prices import Planned, Prices
from warpsmith.planner.stored import Stored, stored
from warpsmith.schedulers.matmul.partials import has_parts
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.rows.columns import BLOCKS
from warpsmith.values import dataclass

PARTIAL = ("inner_outer", "blocks sum columns of their own rows, which others add up")
PARTS = ("matmul", "threads reduce what they have of a tile, which others join")
"""What is said of such results: nobody sees those of all others while they are made."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A tensor that one kernel writes and others read.

    Attributes:
        tensor: as it is stored.
        writer: number of the kernel that writes it.
        readers: numbers of those that read it.
        us: microseconds that writing and reading take at the rate of memory.
        launch_us: microseconds of the launch that a reader takes.
        apart: microseconds of the writer and of its first reader.
        together: both as one kernel.
        again: the reader, where it computes what it reads, and the writer is there all the same;
            None where that is the same as `together`.
    """

    tensor: Stored
    writer: int
    readers: tuple[int, ...]
    us: float
    launch_us: float
    apart: tuple[float, float]
    together: Other
    again: Other | None

    def lines(self) -> list[str]:
        """What `explain` says of it."""
        readers = ", ".join(map(str, self.readers))
        written, read = self.apart
        lines = [
            f"cut {self.tensor}, from kernel {self.writer} to {readers}: "
            f"{self.tensor.size} bytes, {self.us:.3g} µs of memory and a launch of "
            f"{self.launch_us} µs",
            f"  apart       {written:.4g} and {read:.4g} µs",
            f"  not one     {self.together.line('as one kernel', written + read)}",
        ]
        if self.again is not None and not self.again.refusals:
            reader = f"kernel {self.readers[0]}, computing it again,"
            lines.append(f"  not again   {self.again.line(f'{reader} by', read)}")
        return lines


def cuts(plan: Sequence[Planned], problem: Problem, most: int) -> Iterator[Cut]:
    """The cuts between kernels, in the order in which they are written; the first `most`.

    Args:
        problem: the call, with all sizes that its schedules decide.
    """
    rates, prices = problem.target.rates, Prices()
    readers: dict[str, list[int]] = {}
    for number, planned in enumerate(plan):
        for name in planned.segment.inputs:
            readers.setdefault(name, []).append(number)
    for writer, planned in enumerate(plan):
        segment = planned.segment
        for tensor in segment.writes:
            users = tuple(readers.get(tensor.name, ()))
            if not users:
                continue
            if not most:
                return
            most -= 1
            kept = stored(tensor, problem)
            first = plan[users[0]]
            shared = {t.name for t in segment.writes if len(readers.get(t.name, ())) > 1}
            both = joined(segment.fusion, first.segment.fusion, shared)
            yield Cut(
                kept,
                writer,
                users,
                (1 + len(users)) * kept.size / rates.memory,
                rates.launch_us,
                (prices.us(planned, problem), prices.us(first, problem)),
                _partial(tensor)
                or _kept_apart(plan, writer, users[0])
                or other(both, problem, {name for p in (planned, first) for name in _takers(p)}),
                None if _partial(tensor) else _again(both, first, problem),
            )


def _kept_apart(plan: Sequence[Planned], writer: int, reader: int) -> Other | None:
    """What keeps two kernels from being one: a third that needs the first, and the second it."""
    names = [(planned.segment.inputs, planned.segment.outputs) for planned in plan]
    met = between(names, writer, reader)
    if met is None:
        return None
    reason = f"kernel {met} needs kernel {writer}, and kernel {reader} needs kernel {met}"
    return Other(refusals=(("order", reason),))


def _partial(tensor: TensorView) -> Other | None:
    """What is said of a tensor that has the sums of each block's rows, of as many as the schedule
    says, or what threads reduced of a tile; None of others.
    """
    extents = (node for axis in tensor.shape_axes for node in axis.extent.walk())
    if any(isinstance(node, Symbol) and node.name.startswith(BLOCKS) for node in extents):
        return Other(refusals=(PARTIAL,))
    return Other(refusals=(PARTS,)) if has_parts(tensor) else None


def _takers(planned: Planned) -> Iterator[str]:
    """Names of the schedulers that take a part."""
    return (name for name, reason in planned.segment.refusals if not reason)


def _again(both: Fusion, reader: Planned, problem: Problem) -> Other | None:
    """The reader where it computes what it reads; None where nothing else is computed."""
    wanted = {tensor.name for tensor in reader.segment.writes}
    outputs = [output for output in both.outputs if output.value.name in wanted]
    if len(outputs) == len(both.outputs) or len(outputs) < len(wanted):
        return None
    alone = both.draft()
    alone.outputs = [output for output in alone.outputs if output.value.name in wanted]
    needed = set(alone.depends_on([output.value for output in alone.outputs]))
    alone.operations = [operation for operation in alone.operations if operation in needed]
    read = {t for operation in alone.operations for t in tensor_inputs(operation)}
    alone.inputs = [v for v in alone.inputs if not isinstance(v, TensorView) or v in read]
    return other(alone, problem, set(_takers(reader)))


def joined(first: Fusion, second: Fusion, kept: Collection[str] = ()) -> Fusion:
    """Two parts as one: what the second reads of the first is computed, and stored no more, but for
    the tensors of these names.
    """
    fusion = first.blank()
    known: Known = {first: fusion, second: fusion}
    clones = Clones(known)
    inputs = [clones.tensor(tensor) for tensor in first.input_tensors]
    fusion.operations = list(map(clones.operation, first.operations))
    here: dict[str, TensorView] = {tensor.name: tensor for tensor in (*inputs, *fusion.computed)}
    for tensor in second.input_tensors:
        if tensor.name in here:
            known[tensor] = here[tensor.name]
        else:
            inputs.append(clones.tensor(tensor))
    fusion.operations += map(clones.operation, second.operations)
    fusion.inputs = [*inputs, *dict.fromkeys((*first.input_scalars, *second.input_scalars))]
    read = {tensor.name for tensor in second.input_tensors} - set(kept)
    stored = [o for o in first.outputs if o.value.name not in read]
    fusion.outputs = list(map(clones.output, (*stored, *second.outputs)))
    groups = (*first.together, *second.together)
    fusion.together = tuple(dict.fromkeys(tuple(map(clones.tensor, group)) for group in groups))
    return fusion
