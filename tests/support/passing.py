"""Kernels between two passes."""

from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.kernel.kernel import Kernel
from warpsmith.lower.pipeline import lower
from warpsmith.lower.request import Request
from warpsmith.lower.verify.outline import Outlines
from warpsmith.lower.verify.rule import Rule
from warpsmith.targets.hopper import H200


def by_pass(fusion: Fusion, request: Request | None = None) -> dict[str, Kernel]:
    """The kernel that each pass makes, by its name; `build` makes the first form."""
    seen: dict[str, Kernel] = {}
    lower(
        fusion, "k", DataType.Int32, lambda n, k: seen.update({n: k}), target=H200, request=request
    )
    return seen


def behind(name: str, fusion: Fusion, request: Request | None = None) -> Kernel:
    """The kernel that the pass of that name makes."""
    return by_pass(fusion, request)[name]


def meets_partly(kernel: Kernel) -> bool:
    """Whether only some threads, or blocks, come by what all of them take part in."""
    faults = Outlines().of_list(kernel.body).faults
    return any(fault.rule is Rule.COLLECTIVE for fault in faults)
