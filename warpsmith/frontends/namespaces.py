"""`fd.ops` and `fd.sched`: functions bound to one fusion."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Any

from warpsmith import ops
from warpsmith.errors import DefinitionError, SchedulerRefusal
from warpsmith.ir.domains import ParallelType
from warpsmith.ir.fusion import Fusion, Registers
from warpsmith.ir.tensor import TensorView
from warpsmith.ops.liveness import remove_dead
from warpsmith.schedule import inline, propagate, rings, roles, transforms
from warpsmith.schedulers.matmul.params import MatmulParams

_FROM_NOTHING = ("full", "iota", "normal", "ones", "uniform", "zeros")


class Operations:
    """Every operation of `warpsmith.ops`; those without tensor operands know their fusion."""

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in ops.__all__:
            if name.startswith("__"):
                raise AttributeError(name)
            raise DefinitionError(
                f"there is no operation `{name}`",
                code="WS0102",
                remedy=f"the operations are {', '.join(ops.__all__)}",
            )
        function: Callable[..., Any] = getattr(ops, name)
        return partial(function, fusion=self._fusion) if name in _FROM_NOTHING else function

    def __dir__(self) -> list[str]:
        return [*ops.__all__]


class Schedule:
    """Schedule primitives that concern many tensors.

    What no output needs is dropped first, so that nobody has to schedule it.
    """

    # Primitives of one tensor, which is their first argument.
    set_memory_type = staticmethod(transforms.set_memory_type)
    circular_buffer = staticmethod(rings.circular_buffer)
    warp_specialize = staticmethod(rings.warp_specialize)
    set_role = staticmethod(roles.set_role)
    order_groups = staticmethod(roles.order_groups)

    def __init__(self, fusion: Fusion) -> None:
        self._fusion = fusion

    def transform_like(
        self, reference_tv: TensorView, selected_tensors: Collection[TensorView] = ()
    ) -> None:
        """Give other tensors loops like the reference's."""
        remove_dead(self._fusion)
        propagate.transform_like(reference_tv, selected_tensors)

    def parallelize_like(
        self,
        reference_tv: TensorView,
        pos: int = -1,
        selected_tensors: Collection[TensorView] = (),
        selected_parallel_types: Collection[ParallelType] = (),
    ) -> None:
        """Bind other tensors' loops as the reference's equal loops are bound."""
        remove_dead(self._fusion)
        propagate.parallelize_like(reference_tv, pos, selected_tensors, selected_parallel_types)

    def inline_most(self, selected_tensors: Collection[TensorView] = ()) -> None:
        """Compute every tensor as deep in its consumers' loops as is legal."""
        remove_dead(self._fusion)
        inline.inline_most(self._fusion, selected_tensors)

    def inline_at(
        self,
        reference_tv: TensorView,
        pos: int = -1,
        best_effort: bool = False,
        selected_tensors: Collection[TensorView] = (),
    ) -> None:
        """Compute tensors in the first `pos` loops of the reference."""
        remove_dead(self._fusion)
        inline.inline_at(reference_tv, pos, best_effort, selected_tensors)

    def compute_matmul_heuristics(self, inputs: Sequence[object]) -> MatmulParams:
        """The parameters that a product of these arrays gets; printed, in nvFuser's form.

        Raises:
            SchedulerRefusal: WS0402 where tensor cores that TMA feeds take no product of it.
        """
        from warpsmith.engine.executable import Executable

        plan = Executable(self._fusion).plan_for(inputs)
        for launch in plan.launches:
            if isinstance(launch.params, MatmulParams):
                return launch.params
        taken = [each.candidate for each in plan.segments if each.candidate is not None]
        said = dict(pair for candidate in taken for pair in candidate.refusals).get("matmul")
        raise SchedulerRefusal(
            f"the matmul scheduler takes nothing of the call: {said or 'there is nothing to do'}",
            code="WS0402",
            remedy="see `explain`, which says which scheduler has each kernel, and why",
        )

    def set_registers(self, registers: Registers) -> None:
        """Say how many registers the threads of each role may have."""
        roles.set_registers(self._fusion, registers)
