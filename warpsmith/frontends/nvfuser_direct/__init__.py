"""nvFuser's Python module, `nvfuser_direct`, on warpsmith: the same names, the same arguments.

`warpsmith.install_as_nvfuser()` makes it what `import nvfuser_direct` finds.
"""

from __future__ import annotations

from typing import Any

from warpsmith.frontends.nvfuser_direct import absent as _absent
from warpsmith.frontends.nvfuser_direct import (
    idm,
    multidevice,
    nvf_cutlass,
    nvfuser_direct_version,
    ops,
    pytorch_utils,
    schedule,
)
from warpsmith.frontends.nvfuser_direct.axes import IterDomain, Merge, Split, TensorDomain
from warpsmith.frontends.nvfuser_direct.caches import LRUCache, LruFusionCache
from warpsmith.frontends.nvfuser_direct.definition import FusionDefinition
from warpsmith.frontends.nvfuser_direct.descriptor import compute_tensor_descriptor
from warpsmith.frontends.nvfuser_direct.enums import (
    CacheOp,
    CommunicatorBackend,
    DataType,
    IdMappingMode,
    LoadStoreOpType,
    MatmulBufferingLoopLevel,
    MatmulCircularBufferingStrategy,
    MatmulTileRasterizationOrder,
    MatmulTilingStrategy,
    MemoryType,
    MmaMacroArch,
    ParallelType,
    SchedulerType,
)
from warpsmith.frontends.nvfuser_direct.executors import FusionExecutorCache, KernelExecutor
from warpsmith.frontends.nvfuser_direct.fusion import Fusion, translate_fusion
from warpsmith.frontends.nvfuser_direct.guard import FusionGuard, define_scalar, define_tensor
from warpsmith.frontends.nvfuser_direct.heuristics import (
    CircularBufferOptions,
    ClusterDims,
    CompileParams,
    GemmTile,
    HeuristicParams,
    LaunchParams,
    MatmulParams,
    MatMulTileOptions,
    PointwiseParams,
    ReductionParams,
    SupportedVectorization,
)
from warpsmith.frontends.nvfuser_direct.nvfuser_direct_version import Version, __version__
from warpsmith.frontends.nvfuser_direct.profiler import (
    FusionProfile,
    KernelProfile,
    PythonProfiler,
    get_fusion_profile,
    reset_profiler,
)
from warpsmith.frontends.nvfuser_direct.statements import (
    BroadcastOp,
    Expr,
    ReshapeOp,
    SqueezeOp,
    Statement,
    Val,
)
from warpsmith.frontends.nvfuser_direct.validated import (
    get_val_tolerances,
    validate_with_auto_inferred_outputs,
)
from warpsmith.frontends.nvfuser_direct.values import TensorView

__all__ = [
    "BroadcastOp",
    "CacheOp",
    "CircularBufferOptions",
    "ClusterDims",
    "CommunicatorBackend",
    "CompileParams",
    "DataType",
    "Expr",
    "Fusion",
    "FusionDefinition",
    "FusionExecutorCache",
    "FusionGuard",
    "FusionProfile",
    "GemmTile",
    "HeuristicParams",
    "IdMappingMode",
    "IterDomain",
    "KernelExecutor",
    "KernelProfile",
    "LRUCache",
    "LaunchParams",
    "LoadStoreOpType",
    "LruFusionCache",
    "MatMulTileOptions",
    "MatmulBufferingLoopLevel",
    "MatmulCircularBufferingStrategy",
    "MatmulParams",
    "MatmulTileRasterizationOrder",
    "MatmulTilingStrategy",
    "MemoryType",
    "Merge",
    "MmaMacroArch",
    "ParallelType",
    "PointwiseParams",
    "PythonProfiler",
    "ReductionParams",
    "ReshapeOp",
    "SchedulerType",
    "Split",
    "SqueezeOp",
    "Statement",
    "SupportedVectorization",
    "TensorDomain",
    "TensorView",
    "Val",
    "compute_tensor_descriptor",
    "define_scalar",
    "define_tensor",
    "get_fusion_profile",
    "get_val_tolerances",
    "idm",
    "multidevice",
    "nvf_cutlass",
    "nvfuser_direct_version",
    "ops",
    "pytorch_utils",
    "reset_profiler",
    "schedule",
    "translate_fusion",
    "validate_with_auto_inferred_outputs",
    "version",
]


def version() -> Version:
    """The version of nvFuser whose names these are."""
    return __version__


def __getattr__(name: str) -> Any:
    if name not in _absent.ABSENT:
        raise AttributeError(f"module 'nvfuser_direct' has no attribute '{name}'")
    return _absent.absent(name)
