"""Copies between global memory and registers, which carry the vector accesses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from warpsmith.ir.domains import ParallelType
from warpsmith.ir.exprs import Matmul, Move, Pointwise, Reduction, Scan
from warpsmith.ir.fusion import Fusion
from warpsmith.ir.reads import read_elsewhere
from warpsmith.ir.tensor import Operation, TensorView
from warpsmith.schedule.caches import cache_after, cache_before
from warpsmith.schedule.transforms import parallelize
from warpsmith.schedulers.pointwise.applicability import uses_agree
from warpsmith.schedulers.problem import Problem
from warpsmith.values import dataclass

STREAMING_SHARE = 1.5
"""Up to so many times the bytes of the L2, loads that leave no copy in L1 are 2 % faster where it
holds somebody else's writes, and as fast where it does not. Beyond, they are slower either way: a
norm that moves 537 MB takes 4 % longer with them, a softmax's gradient of 805 MB 10 % (one H200,
2026-11-21; docs/lessons/norms_forward.md).

Beyond, norms are 2 to 4 % faster where the L2 keeps the rows that it has loaded and gives up what
was written first; below, up to 14 % slower."""


@dataclass(frozen=True, slots=True)
class Cached:
    """A global tensor and its copy in registers; `load` tells the direction.

    `name` is the tensor's, and says whom the copy is for where others have copies of their own.
    """

    memory: TensorView
    register: TensorView
    load: bool
    name: str

    def within(self, tensors: Mapping[int, TensorView]) -> Cached:
        """The same of a draft, given its tensors by number."""
        memory, register = tensors[self.memory.number], tensors[self.register.number]
        return replace(self, memory=memory, register=register)

    @property
    def copy(self) -> TensorView:
        """The tensor whose definition is the access."""
        return self.register if self.load else self.memory


def add_caches(fusion: Fusion) -> tuple[Cached, ...]:
    """Give every input and output a register copy; what has the same loops is loaded at once."""
    made: list[Cached] = []
    shared = uses_agree(fusion)
    for tensor in fusion.input_tensors:
        made += _load_caches(fusion, tensor, shared)
    alike = {tensor for group in fusion.together for tensor in group}
    loads = [cached.register.definition for cached in made if cached.memory in alike]
    fusion.bring_first(load for load in loads if load is not None)
    for output in dict.fromkeys(o.value for o in fusion.outputs):
        if isinstance(output.definition, Reduction | Scan) and len(output.definition.outputs) > 1:
            made.append(_stored(_detach(fusion, output), output))
            continue
        made.append(_stored(output, cache_before(output)))
    return tuple(made)


def _load_caches(fusion: Fusion, tensor: TensorView, shared: bool) -> list[Cached]:
    """One copy of an input, or one for each of its users."""
    uses = [use for use in fusion.uses(tensor) if not in_memory(use, tensor)]
    if shared or len(uses) == 1:
        outputs = [output for use in uses for output in use.outputs]
        copy = cache_after(tensor, cached_uses=outputs) if uses else tensor
        return [Cached(tensor, copy, True, tensor.name)] if uses else []
    return [
        Cached(tensor, _load_for(tensor, use), True, f"{tensor.name} for {use.outputs[0].name}")
        for use in uses
    ]


def _load_for(tensor: TensorView, use: Operation) -> TensorView:
    """A copy of an input for one user: what it is itself where it copies an operand of products,
    since what these read comes straight from memory.
    """
    copies = isinstance(use, Pointwise) and use.op == "set"
    readers = Fusion.of(tensor).uses(use.outputs[0]) if copies else ()
    if readers and all(isinstance(reader, Matmul) for reader in readers):
        return use.outputs[0]
    return cache_after(tensor, cached_uses=use.outputs)


def in_memory(operation: Operation, tensor: TensorView) -> bool:
    """Whether an operation reads an input where it lies: to repeat it, at places that it computes,
    or to find groups in it.
    """
    if tensor in read_elsewhere(operation):
        return True
    return repeats(operation) or (isinstance(operation, Matmul) and operation.ends is tensor)


def repeats(operation: Operation) -> bool:
    """Whether it repeats elements, which it reads from memory, in loops that the input lacks."""
    return isinstance(operation, Move) and bool(operation.repeats)


def _stored(memory: TensorView, register: TensorView) -> Cached:
    return Cached(memory, register, False, memory.name)


def _detach(fusion: Fusion, output: TensorView) -> TensorView:
    """A copy of one of several results that takes its place, and its name, among the outputs."""
    axes = tuple(axis.clone() for axis in output.shape_axes)
    copy = fusion.tensor(output.dtype, axes, stride_order=output.stride_order)
    copy.number, output.number = output.number, copy.number
    assert output.definition is not None
    fusion.insert_after(output.definition, Pointwise("set", (output,), copy))
    fusion.outputs = [replace(o, value=copy) if o.value is output else o for o in fusion.outputs]
    return copy


def vectorize(caches: Iterable[Cached], names: Collection[str]) -> None:
    """Have the accesses of so named tensors be vectors, along the innermost loop of each."""
    for cached in caches:
        if cached.name in names:
            parallelize(cached.copy, -1, ParallelType.vectorize)


def moved(caches: Iterable[Cached], problem: Problem) -> int:
    """Bytes of all that a kernel reads and writes."""
    return sum(problem.bytes_of(cached.memory) for cached in caches)


def past_l1(caches: tuple[Cached, ...], problem: Problem) -> bool:
    """Whether loads of what is read once are to leave no copy in L1."""
    return moved(caches, problem) <= STREAMING_SHARE * problem.target.l2_bytes
