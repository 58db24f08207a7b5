"""Parameters of schedules and compilations, by nvFuser's names.

warpsmith chooses its own; these carry what a caller says to where it is looked at, which is the
type of scheduler alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from warpsmith.frontends.nvfuser_direct.enums import (
    DataType,
    MatmulBufferingLoopLevel,
    MatmulCircularBufferingStrategy,
    MatmulTileRasterizationOrder,
    MatmulTilingStrategy,
    ParallelType,
    SchedulerType,
)
from warpsmith.values import dataclass


@dataclass
class LaunchParams:
    """Blocks and threads; -1 where a launch finds out."""

    bdimx: int = -1
    bdimy: int = -1
    bdimz: int = -1
    gdimx: int = -1
    gdimy: int = -1
    gdimz: int = -1


@dataclass(kw_only=True)
class CompileParams:
    """How a kernel is compiled; warpsmith decides by sizes, and changes nothing for these."""

    index_type: DataType | None = None
    maxrregcount: int = 255
    enable_magic_zero: bool = True
    enable_ptxas_verbose: bool = False
    device: int | None = None
    include_paths: Sequence[str] = ()


@dataclass
class HeuristicParams:
    """What a scheduler chose: which one it is, and what it says of its choice."""

    scheduler_type: SchedulerType = SchedulerType.none
    lparams: LaunchParams = field(default_factory=LaunchParams)
    cparams: CompileParams = field(default_factory=CompileParams)
    chosen: Any = None

    def hash(self) -> int:
        return hash((self.scheduler_type, repr(self.chosen)))

    def __repr__(self) -> str:
        return f"{self.scheduler_type.name}: {self.chosen!r}"


@dataclass
class PointwiseParams(HeuristicParams):
    """Of `SchedulerType.pointwise`. As of the others, what a caller sets here changes no kernel."""

    break_point: int = 0
    split_block: bool = False
    split_grid_y_dim: bool = False
    flip_grid_binding: bool = False
    vectorization_factor: int = 1
    unroll_factor_inner: int = 1
    unroll_factor_outer: int = 1


@dataclass
class ReductionParams(HeuristicParams):
    """Of reductions, and of what keeps rows that it normalizes."""

    fastest_dim: bool = False
    persistent_kernel: bool = False
    project_persistent_buffers: bool = False
    schedule_3d: bool = False
    flip_grid: bool = False
    cross_block_inner_reduction: bool = False
    cross_grid_inner_reduction: bool = False
    unroll_factor_inner_reduction: int = 1
    unroll_factor_top_of_vectorization: int = 1
    vectorize_inner_reduction: bool = False
    split_grid_dim_inner_reduction: bool = False
    pad_inner_reduction_to_warp: bool = False
    batches_per_block_inner_reduction: int = 1
    block_dim_inner_reduction: ParallelType = ParallelType.serial
    grid_dim_inner_reduction: ParallelType = ParallelType.serial
    multiple_reds_per_blk: bool = False
    unroll_factor_iter_dom: int = 1
    vectorize_iter_dom: bool = False
    split_grid_dim_iter_dom_inner: bool = False
    split_grid_dim_iter_dom_outer: bool = False
    block_dim_iter_dom: ParallelType = ParallelType.serial
    grid_dim_iter_dom: ParallelType = ParallelType.serial
    cross_block_outer_reduction: bool = False
    cross_grid_outer_reduction: bool = False
    batches_per_block_outer_reduction: int = 1
    unroll_factor_outer_reduction: int = 1
    block_dim_outer_reduction: ParallelType = ParallelType.serial
    grid_dim_outer_reduction: ParallelType = ParallelType.serial
    compute_persistent_buffer_with_first_consumer: bool = False
    static_bdimx: bool = False
    static_bdimy: bool = False
    combined_inner_outer: bool = False
    tidx_for_outer_reduction: bool = False
    pad_outer_reduction_to_warp: bool = False
    combined_split_grid_inner_dim: bool = False
    vectorization_factor_outer: int = 1
    vectorization_factor_tmp_gmem_write: int = 1
    block_dim_inner_reduction_extra: ParallelType = ParallelType.serial


@dataclass
class GemmTile:
    """Sizes of a tile of a product."""

    m: int
    n: int
    k: int


@dataclass
class MatMulTileOptions:
    """Tiles of a block and of a warp."""

    cta_tile: GemmTile = field(default_factory=lambda: GemmTile(128, 128, 32))
    warp_tile: GemmTile = field(default_factory=lambda: GemmTile(64, 64, 32))


@dataclass
class CircularBufferOptions:
    """Whether operands of a product go through stages, and through how many."""

    circular_buffer_smem_write: bool = False
    circular_buffer_smem_read: bool = False
    smem_circular_buffer_stage: int = 2
    smem_circular_buffer_prefetch_gap: int = 1


@dataclass
class SupportedVectorization:
    """Elements of a vector of each operand, and of the result."""

    a: int = 0
    b: int = 0
    epilogue: int = 0


@dataclass
class ClusterDims:
    """Blocks of a cluster along both dimensions of the result."""

    m: int = 1
    n: int = 1


@dataclass
class MatmulParams(HeuristicParams):
    """Of `SchedulerType.matmul`."""

    tile_sizes: MatMulTileOptions = field(default_factory=MatMulTileOptions)
    circular_buffer_options: CircularBufferOptions = field(default_factory=CircularBufferOptions)
    supported_vec_size: SupportedVectorization = field(default_factory=SupportedVectorization)
    async_gmem_load_operands: bool = False
    grid_traversal_factor: tuple[int, int] = (1, 1)
    use_smem_epilogue: bool = False
    use_ldst_matrix: bool = True
    promote_prologue_smem_reuse: bool = False
    splitk_factor: int = 1
    tiling_strategy: MatmulTilingStrategy = MatmulTilingStrategy.one_tile_per_cta
    buffering_loop_level: MatmulBufferingLoopLevel = MatmulBufferingLoopLevel.cta_tiles
    circular_buffering_strategy: MatmulCircularBufferingStrategy = (
        MatmulCircularBufferingStrategy.pipelined
    )
    cta_order: MatmulTileRasterizationOrder = MatmulTileRasterizationOrder.row_major
    cluster_dims: ClusterDims = field(default_factory=ClusterDims)
    mma_macro: Any = None


def params_of(scheduler: SchedulerType, chosen: Any) -> HeuristicParams:
    """What nvFuser's programs expect of a scheduler, with its choice."""
    if scheduler is SchedulerType.pointwise:
        return PointwiseParams(
            scheduler,
            chosen=chosen,
            vectorization_factor=chosen[0].vector,
            unroll_factor_outer=chosen[0].unroll,
        )
    kinds: dict[SchedulerType, type[HeuristicParams]] = {
        SchedulerType.matmul: MatmulParams,
        SchedulerType.reduction: ReductionParams,
        SchedulerType.inner_persistent: ReductionParams,
        SchedulerType.outer_persistent: ReductionParams,
        SchedulerType.inner_outer_persistent: ReductionParams,
    }
    return kinds.get(scheduler, HeuristicParams)(scheduler, chosen=chosen)
