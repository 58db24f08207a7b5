"""nvFuser's enumerations, and what their members are here."""

from __future__ import annotations

from enum import Enum
from typing import Any, TypeVar

from warpsmith.frontends.nvfuser_direct.failures import unsupported
from warpsmith.ir import copies, domains, dtypes


class DataType(Enum):
    """Element type of a tensor or a scalar; `Null` leaves it to the operation."""

    Double = "double"
    Float = "float"
    Half = "half"
    Int = "int64"
    Int32 = "int32"
    UInt64 = "uint64"
    Index = "index"
    Bool = "bool"
    BFloat16 = "bfloat16"
    Float8_e4m3fn = "float8_e4m3fn"
    Float8_e5m2 = "float8_e5m2"
    Float8_e8m0fnu = "float8_e8m0fnu"
    Float4_e2m1fn = "float4_e2m1fn"
    Float4_e2m1fn_x2 = "float4_e2m1fn_x2"
    ComplexFloat = "complex64"
    ComplexDouble = "complex128"
    Null = "null"

    __hash__ = object.__hash__


class ParallelType(Enum):
    """What runs the iterations of a loop."""

    mesh_x = "mesh_x"
    mesh_y = "mesh_y"
    mesh_z = "mesh_z"
    grid_x = "grid_x"
    grid_y = "grid_y"
    grid_z = "grid_z"
    block_x = "block_x"
    block_y = "block_y"
    block_z = "block_z"
    mma = "mma"
    serial = "serial"
    tma = "tma"
    unroll = "unroll"
    unswitch = "unswitch"
    vectorize = "vectorize"
    stream = "stream"

    __hash__ = object.__hash__


# What has members of these names and nothing else; `global` is a word of Python's grammar.

MemoryType = Enum("MemoryType", "tensor local shared global symmetric", module=__name__)
"""Where a tensor lives."""

CacheOp = Enum("CacheOp", "unspecified all_levels streaming global", module=__name__)
"""Which caches keep what a load brings."""

LoadStoreOpType = Enum("LoadStoreOpType", "set load_matrix cp_async tma", module=__name__)
"""What carries a copy."""

IdMappingMode = Enum(
    "IdMappingMode", "exact almost_exact broadcast permissive loop", module=__name__
)
"""Which axes of different tensors count as one."""

SchedulerType = Enum(
    "SchedulerType",
    "none no_op pointwise matmul reduction inner_persistent inner_outer_persistent "
    "outer_persistent transpose expr_eval resize",
    module=__name__,
)
"""Which of nvFuser's schedulers takes a fusion."""

MatmulTilingStrategy = Enum(
    "MatmulTilingStrategy",
    "one_tile_per_cta distribute_tiles_across_sms distribute_stages_across_sms",
    module=__name__,
)
"""How tiles of a product are handed out."""

MatmulBufferingLoopLevel = Enum("MatmulBufferingLoopLevel", "cta_tiles warp_tiles", module=__name__)
"""Which tiles of a product share their stages."""

MatmulCircularBufferingStrategy = Enum(
    "MatmulCircularBufferingStrategy", "pipelined warp_specialized", module=__name__
)
"""Who loads the operands of a product."""

MatmulTileRasterizationOrder = Enum(
    "MatmulTileRasterizationOrder", "column_major row_major", module=__name__
)
"""In which order tiles of a product are walked."""

MmaMacroArch = Enum(
    "MmaMacroArch",
    "no_mma volta turing ampere hopper blackwell_1cta blackwell_2cta",
    module=__name__,
)
"""Family of a tensor core's instruction."""

CommunicatorBackend = Enum("CommunicatorBackend", "nccl ucc cuda", module=__name__)
"""Who carries data between GPUs."""


E = TypeVar("E", bound=Enum)

_KINDS: dict[type[Enum], type[Enum]] = {
    DataType: dtypes.DataType,
    ParallelType: domains.ParallelType,
    MemoryType: domains.MemoryType,
    CacheOp: copies.CacheOp,
    LoadStoreOpType: copies.LoadStoreOpType,
}
_OTHERWISE = {"global": "global_"}
_WHY = {
    "mesh_x": "a kernel runs on one GPU",
    "mesh_y": "a kernel runs on one GPU",
    "mesh_z": "a kernel runs on one GPU",
    "stream": "axis(n).parallelize puts a loop on streams, and nothing else does",
    "symmetric": "a kernel runs on one GPU",
    "tensor": "tensor memory belongs to Blackwell's products, which are not scheduled by hand",
    "load_matrix": "loads by matrix are made where a product needs them",
}


def ours(member: Enum) -> Any:
    """What a member is in warpsmith; None for `DataType.Null`, and other members as they are.

    Raises:
        Unsupported: WS0190 where there is nothing that it could be.
    """
    kind = _KINDS.get(type(member))
    if kind is None:
        return member
    if member is DataType.Null:
        return None
    name = _OTHERWISE.get(member.name, member.name)
    if name in kind.__members__:
        return kind[name]
    why = _WHY.get(member.name, "kernels have no elements of this type")
    raise unsupported(f"{type(member).__name__}.{member.name}", why)


def theirs(dtype: dtypes.DataType) -> DataType:
    """A type of warpsmith by nvFuser's name.

    Raises:
        Unsupported: WS0190 for integers of 16 and 8 bits, which nvFuser does not have.
    """
    if dtype.name not in DataType.__members__:
        raise unsupported("DataType", f"it has no {dtype.name}", "cast to Int32")
    return DataType[dtype.name]
