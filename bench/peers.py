"""Who takes part: warpsmith, and every peer that is installed and can do the problem."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from importlib import metadata
from typing import Any

from bench import pace, rings, roles, strategies
from bench.problem import Builder, Problem, Tensors
from warpsmith.errors import ArgumentError

CHOICES = ("auto", "none", "fast")
"""All that are installed, warpsmith alone, or those that need no compile (PyTorch eager)."""

OWN: dict[str, Callable[[Problem], dict[str, Builder]]] = {
    rings.SUITE: rings.choices,
    pace.SUITE: pace.choices,
    roles.SUITE: roles.choices,
    strategies.SUITE: strategies.choices,
}
"""Suites that compare schedules of warpsmith with each other, and who takes part in them."""

_MODULES = {
    "nvfuser": "nvfuser_direct",
    "liger": "liger_kernel",
    "quack": "quack",
    "cudnn": "torch",
}
_PACKAGES = {
    "torch": ("torch",),
    "triton": ("triton",),
    "nvrtc": ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu13"),
    "nvfuser": ("nvfuser-cu131-torch211", "nvfuser-cu130-torch211", "nvfuser-direct", "nvfuser"),
    "liger": ("liger-kernel",),
    "quack": ("quack-kernels",),
}


def installed(name: str) -> bool:
    """Whether a peer can be imported here."""
    return importlib.util.find_spec(_MODULES[name]) is not None


def chosen(peers: str) -> tuple[str, ...]:
    """Names of the peers that a choice means: one of `CHOICES`, or names with commas between.

    Raises ArgumentError for a name that no peer has.
    """
    known = ("torch", "torch_compile", *_MODULES)
    named = {"auto": known, "none": (), "fast": known[:1]}.get(peers, tuple(peers.split(",")))
    for name in named:
        if name not in known:
            raise ArgumentError(
                f"peers={peers!r} is not known",
                code="WS0341",
                remedy=f"use {', '.join(CHOICES)}, or some of {','.join(known)}",
            )
    return named


def contenders(problem: Problem, peers: str) -> dict[str, Builder]:
    """Implementations of a problem by name, warpsmith first: those of a choice of peers that can do
    it and are installed.
    """
    if problem.suite in OWN:
        return OWN[problem.suite](problem)
    able: dict[str, Builder] = {"torch": _torch(problem), "torch_compile": _torch_compile(problem)}
    if installed("nvfuser"):
        able["nvfuser"] = _nvfuser(problem)
    able |= {name: builder for name, builder in problem.builders.items() if installed(name)}
    named = chosen(peers)
    taking_part = {name: builder for name, builder in able.items() if name in named}
    return {"warpsmith": _warpsmith(problem), **taking_part}


def versions() -> tuple[tuple[str, str], ...]:
    """Versions of warpsmith, of the driver and of every installed package that matters here."""
    found = {"warpsmith": _version("warpsmith") or "source"}
    for name, packages in _PACKAGES.items():
        version = next((v for p in packages if (v := _version(p))), None)
        if version:
            found[name] = version
    driver = _driver_version()
    if driver:
        found["cuda_driver"] = driver
    return tuple(sorted(found.items()))


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _driver_version() -> str | None:
    """The CUDA version that the driver offers, or None without one."""
    from warpsmith.errors import DeviceError
    from warpsmith.runtime.driver import check, initialized

    try:
        number: int = check(initialized().cuDriverGetVersion())
    except DeviceError:
        return None
    return f"{number // 1000}.{number % 1000 // 10}"


def _warpsmith(problem: Problem) -> Builder:
    def build(inputs: Tensors) -> Callable[[], Any]:
        import warpsmith

        fused = warpsmith.fuse(problem.fused)
        return lambda: fused(*inputs)

    return build


def _torch(problem: Problem) -> Builder:
    return lambda inputs: lambda: problem.eager(*inputs)


def _torch_compile(problem: Problem) -> Builder:
    def build(inputs: Tensors) -> Callable[[], Any]:
        import torch

        torch._dynamo.reset()  # else sizes met before count as dynamic, and too many are given up
        compiled = torch.compile(problem.eager, dynamic=False)
        return lambda: compiled(*inputs)

    return build


def _nvfuser(problem: Problem) -> Builder:
    def build(inputs: Tensors) -> Callable[[], Any]:
        nvfuser_direct = importlib.import_module("nvfuser_direct")
        with nvfuser_direct.FusionDefinition() as definition:
            problem.define(definition, nvfuser_direct.DataType, *inputs)
        arguments = list(inputs)
        return lambda: definition.execute(arguments)

    return build
