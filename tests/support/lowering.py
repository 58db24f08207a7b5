"""Kernels of schedules, lowered for an H200 with indices of 32 bits."""

from tests.support.passing import behind
from tests.support.program import Program
from warpsmith import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.fusion import Fusion
from warpsmith.kernel.kernel import Kernel
from warpsmith.lower.pipeline import lower
from warpsmith.targets.hopper import H200

Scheduled = FusionDefinition | Program | Fusion


def lowered(program: Scheduled) -> Kernel:
    """The kernel of a schedule as it was laid."""
    return lower(_fusion(program), "k", DataType.Int32, target=H200)


def unordered(program: Scheduled) -> Kernel:
    """The same before its passes, whose indices are in terms of loops and threads."""
    return behind("build", _fusion(program))


def _fusion(program: Scheduled) -> Fusion:
    return program if isinstance(program, Fusion) else program.fusion
