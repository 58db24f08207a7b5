"""Hopper: the family sm_90a, and its models H200 and H100 (SXM)."""

from __future__ import annotations

from dataclasses import replace

from warpsmith.targets.atoms import ATOMS
from warpsmith.targets.family import THREAD_REGISTERS, Family, Limits
from warpsmith.targets.target import Rates, Target

SM90A = Family(
    arch="sm_90a",
    compute_capability=(9, 0),
    limits=Limits(
        block_threads=1024,
        block_axes=(1024, 1024, 64),
        grid_axes=(2**31 - 1, 65535, 65535),
        cluster_blocks=16,
        sm_threads=2048,
        sm_blocks=32,
        block_shared=227 * 1024,
        sm_shared=228 * 1024,
        shared_taken=1024,
        shared_step=128,
        sm_registers=65536,
        partitions=4,
        register_step=8,
        thread_registers=THREAD_REGISTERS,
        named_barriers=16,
    ),
    atoms=ATOMS,
)
"""Limits: CUDA C++ Programming Guide, technical specifications by compute capability, and Hopper
Tuning Guide; named barriers: PTX ISA on `bar`. Registers at entry are those that NVRTC 13 gives
(tests/runtime/test_nvrtc.py)."""

_SHEET = "data sheet"

H200 = Target(
    name="h200",
    family=SM90A,
    devices=("NVIDIA H200",),
    sm_count=132,
    clusters=((2, 66), (4, 30), (8, 15), (16, 7)),
    l2_bytes=50_000_000,
    rates=Rates(
        memory=4_814_304,
        l2=11.2e6,
        sm_load=117e3,
        clock=1755,
        tensor=989.4e6,
        fma=66.9e6,
        launch_us=2.5,
    ),
    sources=(
        ("sm_count", "driver, 2026-11"),
        ("clusters", "driver, 2026-11; other chips of this model may differ"),
        ("l2_bytes", _SHEET),
        ("memory", "driver's clock and bus, 2026-11; a copy reaches 0.89 of it"),
        ("l2", "fitted to timings of products, 2026-11-21 (docs/lessons/matmul.md)"),
        ("sm_load", "fitted to timings of small products, 2026-11-21 (docs/lessons/matmul.md)"),
        ("clock", "that the models of rows were fitted with, 2026-11; 1970 was seen at times"),
        ("tensor", _SHEET),
        ("fma", _SHEET),
        ("launch_us", "timings of calls of several kernels, 2026-11"),
    ),
)
"""One H200, measured."""

_SAME_CHIP = "as of the H200, whose chip it has; not measured"

H100 = replace(
    H200,
    name="h100",
    devices=("NVIDIA H100 80GB HBM3",),
    rates=replace(H200.rates, memory=3_352_320),
    sources=(
        ("sm_count", _SHEET),
        ("clusters", _SAME_CHIP),
        ("l2_bytes", _SHEET),
        ("memory", "data sheet, 3.35 TB/s: 2619 MHz and 5120 bits"),
        ("l2", _SAME_CHIP),
        ("sm_load", _SAME_CHIP),
        ("clock", _SAME_CHIP),
        ("tensor", _SHEET),
        ("fma", _SHEET),
        ("launch_us", _SAME_CHIP),
    ),
)
"""H100 SXM with 80 GB: nobody measured it here."""
