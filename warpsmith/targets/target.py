"""A target: one model of a GPU, as plans, schedules, proofs and the simulator see it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from warpsmith.targets.family import Family
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """How fast a GPU is, at its best, in a microsecond.

    Attributes:
        memory: bytes, by the clock and the bus of the memory. Kernels reach some nine tenths.
        l2: bytes that all multiprocessors together load, mostly from the L2.
        sm_load: bytes that one multiprocessor loads while few others do.
        clock: cycles of a multiprocessor.
        tensor: multiplications and additions of 16-bit operands on tensor cores.
        fma: the same in float, by threads.
        launch_us: microseconds of a kernel more in a call: its start, first loads, last stores.
    """

    memory: float
    l2: float
    sm_load: float
    clock: float
    tensor: float
    fma: float
    launch_us: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One model of a GPU. A second model of a family is a second value.

    Attributes:
        name: that users give it.
        devices: names that the driver gives to devices of this model.
        sm_count: multiprocessors.
        clusters: (blocks, clusters of so many that run at once where a multiprocessor has one
            block). They lie within groups of multiprocessors, so some of these are left over.
        l2_bytes: of the L2 cache.
        sources: by name of an attribute, or of one of the rates, where its number comes from.
    """

    name: str
    family: Family = field(hash=False)
    devices: tuple[str, ...]
    sm_count: int
    clusters: tuple[tuple[int, int], ...]
    l2_bytes: int
    rates: Rates
    sources: tuple[tuple[str, str], ...] = field(repr=False, compare=False)

    @property
    def sm_memory(self) -> float:
        """Bytes a microsecond of the memory that a multiprocessor has if all load."""
        return self.rates.memory / self.sm_count

    @property
    def sm_issues(self) -> float:
        """Instructions of warps that a multiprocessor issues in a microsecond."""
        return self.family.limits.partitions * self.rates.clock

    def runs(self, clusters: Iterable[int]) -> tuple[int, ...]:
        """Those sizes of clusters, in blocks, that the device runs."""
        return tuple(filter(self.teams, clusters))

    def teams(self, blocks: int) -> int:
        """Clusters of so many blocks that run at once where a multiprocessor has one block; 0 where
        the device runs none.
        """
        if blocks == 1:
            return self.sm_count
        return next((count for most, count in self.clusters if most >= blocks), 0)
