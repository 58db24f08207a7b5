"""Blackwell: the family sm_100a, and its model B200. Kernels are compiled and simulated, never run.

Its tensor cores have no `wgmma`; there is no code for their `tcgen05` yet, so warps multiply by
`mma.sync`.
"""

from __future__ import annotations

from dataclasses import replace

from warpsmith.targets.atoms import FMA, MMA
from warpsmith.targets.family import Family
from warpsmith.targets.hopper import SM90A
from warpsmith.targets.target import Rates, Target

SM100A = Family(
    arch="sm_100a",
    compute_capability=(10, 0),
    limits=SM90A.limits,
    atoms=(*(replace(atom, rate=atom.rate // 2) for atom in MMA), *FMA),
)
"""All of Hopper's limits are those of compute capability 10.0, too (CUDA C++ Programming Guide).
`mma.sync` is taken to do as much in a clock as on Hopper, half as much of what tensor cores can at
most; not measured."""

_SHEET = "data sheet"
_SCALED = "the H200's, by multiprocessors and clock; not measured"

B200 = Target(
    name="b200",
    family=SM100A,
    devices=("NVIDIA B200",),
    sm_count=148,
    clusters=((2, 74), (4, 32), (8, 16), (16, 8)),
    l2_bytes=126_000_000,
    rates=Rates(
        memory=8.0e6,
        l2=14.1e6,
        sm_load=131e3,
        clock=1965,
        tensor=2.25e9,
        fma=75e6,
        launch_us=2.5,
    ),
    sources=(
        ("sm_count", _SHEET),
        ("clusters", "assumed: eight groups of at least 16 multiprocessors; the driver knows"),
        ("l2_bytes", _SHEET),
        ("memory", "data sheet, 8 TB/s"),
        ("l2", _SCALED),
        ("sm_load", _SCALED),
        ("clock", "data sheet, the highest"),
        ("tensor", _SHEET),
        ("fma", _SHEET),
        ("launch_us", "as of the H200; not measured"),
    ),
)
