"""What crosses memory between kernels, what it costs, and why they are not one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from warpsmith.ir.clone import Clones, Known
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.program import Output
from warpsmith.ir.tensor import TensorView
from warpsmith.planner.segment import Segment
from warpsmith.schedulers.problem import Problem
from warpsmith.schedulers.select import Refusals, refusals
from warpsmith.targets.target import Target


@dataclass(frozen=True, slots=True)
class Cut:
    """A tensor that one kernel writes and others read.

    Attributes:
        tensor: its name; dtype and shape say what is stored.
        writer: number of the kernel that writes it.
        readers: numbers of those that read it.
        size: bytes, each time.
        us: microseconds that writing and reading take at the rate of memory.
        launch_us: microseconds of the launch that a reader takes.
        together: what the schedulers of the writer and of its first reader say of both as one.
    """

    tensor: str
    dtype: str
    shape: tuple[int, ...]
    writer: int
    readers: tuple[int, ...]
    size: int
    us: float
    launch_us: float
    together: Refusals

    def lines(self) -> list[str]:
        """What `explain` says of it."""
        readers = ", ".join(map(str, self.readers))
        shape = ",".join(map(str, self.shape))
        told = [reason for reason in self.together if reason[1]]
        could = [name for name, reason in self.together if not reason]
        if could:
            why = f"{' and '.join(could)} would take both; apart they are expected to be faster"
        else:
            why = "; ".join(f"{name}: {reason}" for name, reason in told)
        return [
            f"cut {self.tensor} {self.dtype}[{shape}], from kernel {self.writer} to {readers}: "
            f"{self.size} bytes, {self.us:.3g} µs of memory and a launch of {self.launch_us} µs",
            f"  not one     {why}",
        ]


def cuts(segments: Sequence[Segment], problem: Problem, most: int) -> Iterator[Cut]:
    """The cuts between segments, in the order in which they are written; the first `most`."""
    rates = problem.target.rates
    for writer, segment in enumerate(segments):
        for tensor in segment.writes:
            users = tuple(
                n for n, s in enumerate(segments) if n > writer and tensor.name in s.inputs
            )
            if not users:
                continue
            if not most:
                return
            most -= 1
            shape = tuple(problem.size(axis.extent) for axis in tensor.shape_axes)
            size = prod(shape) * tensor.dtype.size
            yield Cut(
                tensor.name,
                tensor.dtype.value,
                shape,
                writer,
                users,
                size,
                (1 + len(users)) * size / rates.memory,
                rates.launch_us,
                _together(segment, segments[users[0]], problem.target),
            )


def _together(first: Segment, second: Segment, target: Target) -> Refusals:
    """What the schedulers that take one of two parts say of both as one."""
    takers = {name for s in (first, second) for name, reason in s.refusals if not reason}
    said = refusals(joined(first.fusion, second.fusion), target)
    return tuple((name, reason) for name, reason in said if name in takers)


def joined(first: Fusion, second: Fusion) -> Fusion:
    """Two parts as one: what the second reads of the first is computed, and stored no more."""
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
    read = {tensor.name for tensor in second.input_tensors}
    stored = [o.value for o in first.outputs if o.value.name not in read]
    results = [*stored, *(o.value for o in second.outputs)]
    fusion.outputs = [Output(clones.tensor(tensor)) for tensor in results]
    groups = (*first.together, *second.together)
    fusion.together = tuple(dict.fromkeys(tuple(map(clones.tensor, group)) for group in groups))
    return fusion
