"""Copies between global memory and registers, which carry the vector accesses."""

from __future__ import annotations

from dataclasses import dataclass

from warpsmith.ir.exprs import Pointwise, Welford, replace_tensor
from warpsmith.ir.fusion import Fusion, Output
from warpsmith.ir.tensor import TensorView
from warpsmith.schedule.caches import cache_after, cache_before


@dataclass(frozen=True, slots=True)
class Cached:
    """A global tensor and its copy in registers; `load` tells the direction."""

    memory: TensorView
    register: TensorView
    load: bool

    @property
    def copy(self) -> TensorView:
        """The tensor whose definition is the access."""
        return self.register if self.load else self.memory


def add_caches(fusion: Fusion) -> tuple[Cached, ...]:
    """Give every input and output a register copy."""
    made = []
    for tensor in fusion.input_tensors:
        if fusion.uses(tensor):
            made.append(Cached(tensor, cache_after(tensor), load=True))
    for output in {id(o.value): o.value for o in fusion.outputs}.values():
        readers = fusion.uses(output)
        if isinstance(output.definition, Welford):
            made.append(Cached(_detach(fusion, output), output, load=False))
            continue
        register = cache_before(output)
        made.append(Cached(output, register, load=False))
        for reader in readers:
            fusion.replace(reader, replace_tensor(reader, output, register))
    return tuple(made)


def _detach(fusion: Fusion, output: TensorView) -> TensorView:
    """A copy of a Welford result that takes its place among the outputs."""
    axes = tuple(axis.clone() for axis in output.shape_axes)
    copy = fusion.tensor(output.dtype, axes)
    assert output.definition is not None
    fusion.insert_after(output.definition, Pointwise("set", (output,), copy))
    fusion.outputs = [Output(copy, o.alias_of) if o.value is output else o for o in fusion.outputs]
    return copy
