"""A product of matrices by roles, in tiles: its sizes, and the buffers that follow from them."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.role_parts import single
from warpsmith.ir import integers
from warpsmith.ir.domains import MemoryType
from warpsmith.ir.dtypes import DataType
from warpsmith.ir.scalar import Const, Symbol
from warpsmith.kernel.agents import Agent
from warpsmith.kernel.nodes import Buffer
from warpsmith.kernel.pipelines import By, Content, Pipeline
from warpsmith.targets.atoms import ROWS

M, N, K = (Symbol(name, low=1) for name in "mnk")
TILE, STEP_K, PART, CHUNK, PLACE = (Symbol(f"i{number}", low=0) for number in range(5))
ACCUMULATORS = "T4"
STEP = 16
"""Elements along k that one instruction multiplies."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """What kernel is made.

    Attributes:
        groups: warp groups; 64 rows of a tile each.
        columns: of a tile.
        depth: elements along k of a tile: 16, 32 or 64; a row of them is a swizzled one.
        stages: stages of the ring of operands.
        chunk: columns of a stage of the staging ring: 16, 32 or 64.
        staging: stages of that ring, at least two.
        registers: of the threads of load and compute.
    """

    groups: int = 2
    columns: int = 256
    depth: int = 64
    stages: int = 4
    chunk: int = 64
    staging: int = 2
    blocks: int = 1
    dtype: DataType = DataType.BFloat16
    registers: tuple[int, int] | None = (40, 232)

    @property
    def rows(self) -> int:
        return ROWS * self.groups

    @property
    def load(self) -> Agent:
        return single("load", 0, self.registers and self.registers[0])

    @property
    def compute(self) -> Agent:
        threads = (Const(128), Const(self.groups), integers.ONE)
        return Agent(
            "compute", 4, threads, barrier=1, registers=self.registers and self.registers[1]
        )

    @property
    def operands(self) -> tuple[Buffer, Buffer]:
        """Tiles of a and of b, all stages of them."""
        a, b = (self.stages * self.depth * lines for lines in (self.rows, self.columns))
        return self._shared("T2", a), self._shared("T3", b)

    @property
    def staged(self) -> Buffer:
        return self._shared("T6", self.staging * self.rows * self.chunk)

    @property
    def accumulators(self) -> Buffer:
        return Buffer(ACCUMULATORS, DataType.Float, MemoryType.local, Const(self.columns // 2))

    @property
    def tensors(self) -> tuple[Buffer, Buffer, Buffer]:
        """a, b and d in global memory."""
        shapes = ((M, K), (N, K), (M, N))
        a, b, d = (
            Buffer(name, self.dtype, MemoryType.global_, integers.mul(*shape), name == "T7")
            for name, shape in zip(("T0", "T1", "T7"), shapes, strict=True)
        )
        return a, b, d

    @property
    def ring(self) -> Pipeline:
        a, b = self.operands
        sizes = ((a, self.rows * self.depth), (b, self.columns * self.depth))
        contents = tuple(Content(buffer, size) for buffer, size in sizes)
        return Pipeline(
            name="ring0",
            stages=self.stages,
            contents=contents,
            by=By.TMA,
            producer="load",
            consumers=("compute",),
        )

    def _shared(self, name: str, size: int) -> Buffer:
        return Buffer(
            name, self.dtype, MemoryType.shared, Const(size), guarded=True, alignment=1024
        )
