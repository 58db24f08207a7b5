"""What a call ran, by nvFuser's names; `torch.profiler` tells how long kernels took."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextvars import ContextVar, Token
from typing import Any

from warpsmith.engine.executable import Executable
from warpsmith.engine.launches import Launch
from warpsmith.frontends.nvfuser_direct import kernels
from warpsmith.frontends.nvfuser_direct.failures import FusionError
from warpsmith.values import dataclass

_ACTIVE: ContextVar[PythonProfiler | None] = ContextVar("nvfuser_direct.profiler", default=None)
_LAST: ContextVar[PythonProfiler | None] = ContextVar("nvfuser_direct.last_profiler", default=None)


@dataclass(frozen=True, kw_only=True)
class KernelProfile:
    """One kernel of a call. Times, and what follows from them, are no numbers.

    Attributes:
        scheduler: nvFuser's name of the scheduler, or warpsmith's; `user` for schedules by hand.
        registers: of each thread.
        input_bytes, output_bytes: of all that the call takes and returns.
    """

    name: str
    segment_id: int
    scheduler: str
    grid_str: str
    block_str: str
    cluster_str: str
    shared_mem_str: str
    registers: int
    input_bytes: int
    output_bytes: int
    device: int = 0
    stream: int = 0
    correlation_id: int = 0
    compile_time_ms: float = math.nan
    time_ms: float = math.nan
    effective_bandwidth_gbs: float = math.nan
    percentage_peak_bandwidth: float = math.nan


@dataclass(frozen=True, kw_only=True)
class FusionProfile:
    """One call: its kernels, and the milliseconds that it took the host."""

    fusion_id: int
    segments: int
    host_time_ms: float
    input_bytes: int
    output_bytes: int
    kernel_profiles: tuple[KernelProfile, ...]
    verbose: bool = False
    cuda_evt_time_ms: float = math.nan
    compile_time_ms: float = math.nan
    kernel_time_ms: float = math.nan
    effective_bandwidth_gbs: float = math.nan
    percentage_peak_bandwith: float = math.nan  # so spelled there


class PythonProfiler:
    """Looks at the last call inside a `with`.

    Example:
        with PythonProfiler() as prof:
            fd.execute(inputs)
        print(prof.profile.kernel_profiles[0].name)

    Attributes:
        profile: of the last call; None before one.
    """

    profile: FusionProfile | None = None

    def __init__(self, auto_scheduled: bool = True) -> None:
        self._token: Token[PythonProfiler | None] | None = None

    def __enter__(self) -> PythonProfiler:
        self._token = _ACTIVE.set(self)
        _LAST.set(self)
        return self

    def __exit__(self, *exception: object) -> None:
        assert self._token is not None
        _ACTIVE.reset(self._token)

    def see(
        self,
        executable: Executable,
        by_hand: bool,
        inputs: Sequence[Any],
        results: Sequence[Any],
        seconds: float,
    ) -> None:
        """Take a call for the last one."""
        plan = executable.last_plan
        taken, made = _bytes(inputs), _bytes(results)
        launches = () if plan is None else plan.launches
        names = [] if plan is None else list(map(kernels.scheduler_of, plan.segments))
        self.profile = FusionProfile(
            fusion_id=0,
            segments=len(launches),
            host_time_ms=1000 * seconds,
            input_bytes=taken,
            output_bytes=made,
            kernel_profiles=tuple(
                _kernel(launch, "user" if by_hand else names[launch.segment], taken, made)
                for launch in launches
            ),
        )


def active() -> PythonProfiler | None:
    """The profiler of the innermost `with`."""
    return _ACTIVE.get()


def get_fusion_profile() -> FusionProfile:
    """Of the last call inside the `with` that was entered last.

    Raises:
        FusionError: WS0196 where there was no such call, or it was forgotten.
    """
    last = _LAST.get()
    if last is None or last.profile is None:
        raise FusionError(
            "The FusionProfile struct data is not valid because it has not been processed!",
            code="WS0196",
            remedy="execute a fusion inside `with PythonProfiler():`",
        )
    return last.profile


def reset_profiler() -> None:
    """Forget the last call."""
    if (last := _LAST.get()) is not None:
        last.profile = None


def _kernel(launch: Launch, scheduler: str, taken: int, made: int) -> KernelProfile:
    return KernelProfile(
        name=launch.compiled.name,
        segment_id=launch.segment,
        scheduler=scheduler,
        grid_str=_extents(launch.grid),
        block_str=_extents(launch.block),
        cluster_str=_extents(launch.compiled.kernel.launch.cluster),
        shared_mem_str=f"[{launch.reserved_bytes}]",
        registers=launch.compiled.n_regs,
        input_bytes=taken,
        output_bytes=made,
    )


def _extents(extents: Sequence[int]) -> str:
    return f"[{', '.join(map(str, extents))}]"


def _bytes(values: Sequence[Any]) -> int:
    return sum(int(value.nbytes) for value in values if hasattr(value, "nbytes"))
