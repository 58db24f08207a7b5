"""Tensors of complex numbers under nvFuser's names."""

from __future__ import annotations

from typing import Any

from warpsmith.frontends.nvfuser_direct.enums import DataType
from warpsmith.frontends.nvfuser_direct.failures import unsupported
from warpsmith.frontends.nvfuser_direct.pairs import Pair
from warpsmith.frontends.nvfuser_direct.values import TensorView

_OF_LOOPS = (
    "axis cache_after cache_before definition domain get_logical_domain get_loop_domain "
    "get_root_domain has_root inner_split merge outer_split reorder rfactor set_allocation_domain "
    "set_memory_type split uses"
)


class ComplexView(TensorView):
    """A tensor of complex numbers, which has no loops of its own: its parts are real tensors."""

    __slots__ = ()
    value: Pair  # type: ignore[assignment]  # what it has in common stands in Pair

    def __str__(self) -> str:
        return f"{self.value.name}_{self.value.dtype.value}"

    __repr__ = __str__

    def dtype(self) -> DataType:
        return self.value.dtype

    def __getattribute__(self, name: str) -> Any:
        if name in _OF_LOOPS.split():
            raise unsupported(
                f"TensorView.{name} of complex numbers",
                "they are pairs of reals, which warpsmith schedules",
                "use execute",
            )
        return super().__getattribute__(name)
