"""A launch written down: the spec, a JSON object, and the job that it describes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from numpy.typing import ArrayLike

from warpsmith.sim.contents import buffers_of, expectation, expectations_of
from warpsmith.sim.entries import Spec, dim3, integer, listed, refuse, table, word
from warpsmith.sim.machine import Dim3, Launch, check_shared
from warpsmith.sim.parameters import with_parameters
from warpsmith.sim.program import Program
from warpsmith.sim.simulate import Expectation
from warpsmith.targets.family import WARP, Limits
from warpsmith.targets.known import KNOWN, named
from warpsmith.targets.target import Target
from warpsmith.values import dataclass

MOST_CTAS: Final = 1 << 16
_LEAST_REGISTERS: Final = 16
_KEYS: Final = (
    *("kernel", "target", "grid", "block", "cluster", "shared_bytes", "registers", "early"),
    *("together", "buffers", "params", "outputs", "expect"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A launch ready to be simulated, and what its outputs must be."""

    launch: Launch
    outputs: tuple[str, ...]
    expected: Mapping[str, Expectation]


def load_spec(path: Path) -> dict[str, Any]:
    """Read a spec. Raises SimulationError where there is none, or it is not a JSON object."""
    try:
        spec = json.loads(path.read_text("utf-8"), object_pairs_hook=_object)
    except OSError as failure:
        refuse(f"the spec {path} cannot be read: {failure.strerror or failure}")
    except UnicodeDecodeError as failure:
        refuse(f"the spec {path} is not UTF-8: byte {failure.start}")
    except (ValueError, RecursionError) as failure:
        refuse(f"the spec {path} is not JSON: {failure}")
    if not isinstance(spec, dict):
        refuse(f"the spec {path} is a {type(spec).__name__}", "it must be an object")
    return spec


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """JSON would keep the last entry of a name; here a name stands once."""
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        refuse(f"the spec has two entries `{twice}` in one object", "a name may stand once")
    return made


def kernel_of(spec: Spec) -> str | None:
    """The entry that a spec names, None where it names none."""
    return None if spec.get("kernel") is None else word(spec["kernel"], "`kernel`")


def prepare(
    program: Program,
    spec: Spec,
    *,
    arrays: Mapping[str, ArrayLike] | None = None,
    expected: Mapping[str, Expectation | ArrayLike] | None = None,
    seed: int = 0,
    folder: Path = Path(),
) -> Job:
    """The launch of `program` that a spec describes.

    Args:
        arrays: contents of buffers by name, in place of the spec's `init` or `npy`.
        expected: what outputs must be, beside what the spec says.
        seed: of random contents.
        folder: where `npy` files are looked for.

    Raises SimulationError where the spec does not fit the kernel; it names the entry.
    """
    table(spec, "the spec", _KEYS)
    block = dim3(spec, "block")
    grid, cluster = dim3(spec, "grid"), dim3(spec, "cluster", program.cluster or (1, 1, 1))
    target = target_of(program, spec)
    limits = target.family.limits
    _check_extents(program, grid, block, cluster, limits)
    threads = math.prod(block)
    registers = integer(spec.get("registers", 0), "`registers`", 0, limits.thread_registers + 1)
    registers = registers or entry_registers(program, threads, limits)
    if registers * threads > limits.sm_registers:
        refuse(
            f"{threads} threads of {registers} registers take {registers * threads}",
            f"an SM has {limits.sm_registers}; give fewer `registers`",
        )
    for name, what in (
        ("early", "true where the kernel before may still run"),
        ("together", "true where all CTAs run at once, as those of a cooperative launch do"),
    ):
        if not isinstance(spec.get(name, False), bool):
            refuse(f"`{name}` is neither true nor false", what)
    buffers = buffers_of(spec, arrays or {}, seed, folder)
    launch = Launch(
        program=program,
        grid=grid,
        block=block,
        cluster=cluster,
        dynamic_shared=integer(
            spec.get("shared_bytes", 0), "`shared_bytes`", 0, limits.block_shared
        ),
        registers=registers,
        buffers=buffers,
        parameters=b"",
        target=target,
        early=spec.get("early", False),
        together=spec.get("together", False),
    )
    check_shared(launch)
    contents = {buffer.name: buffer.array for buffer in buffers}
    outputs = spec.get("outputs", ())
    if not isinstance(outputs, list | tuple):
        refuse("`outputs` is no list", "list the names of buffers")
    for name in outputs:
        if not isinstance(name, str) or name not in contents:
            refuse(f"output `{name}` is no buffer", f"buffers are {listed(tuple(contents))}")
    wanted = expectations_of(spec, buffers, folder)
    for name, each in (expected or {}).items():
        given = each if isinstance(each, Expectation) else Expectation(values=each)  # type: ignore[arg-type]
        wanted[name] = expectation(given.values, contents, name, rtol=given.rtol, atol=given.atol)
    return Job(
        launch=with_parameters(program, spec, launch), outputs=tuple(outputs), expected=wanted
    )


def target_of(program: Program, spec: Spec) -> Target:
    """The target that a spec names; else the first known one of the family that PTX is for.

    Raises SimulationError for a name, or PTX, of no known target.
    """
    names = [target.name for target in KNOWN]
    if spec.get("target") is not None:
        name = word(spec["target"], "`target`")
        if name not in names:
            refuse(f"`target` is `{name}`", f"the known ones are {listed(tuple(names))}")
        return named(name)
    arch = program.target
    plain = arch.removesuffix("a")
    found = next((t for t in KNOWN if t.family.arch.removesuffix("a") == plain), None)
    if found is None:
        refuse(f"the PTX is for {arch or 'no target'}", f"name a `target`: {listed(tuple(names))}")
    return found


def entry_registers(program: Program, threads: int, limits: Limits) -> int:
    """Registers a thread at entry when the spec does not say: as many as the launch bound allows.

    ptxas gives a kernel that uses `setmaxnreg` exactly these.
    """
    if program.max_registers:
        return program.max_registers
    warps = -(-max(program.bound or threads, threads) // WARP) * max(program.min_blocks, 1)
    return max(limits.entry_registers(warps), _LEAST_REGISTERS)


def _check_extents(
    program: Program, grid: Dim3, block: Dim3, cluster: Dim3, limits: Limits
) -> None:
    threads, ctas = math.prod(block), math.prod(grid)
    if threads > limits.block_threads or block[2] > limits.block_axes[2]:
        refuse(
            f"a block of {' x '.join(map(str, block))} threads",
            f"at most {limits.block_threads} are allowed, and {limits.block_axes[2]} in z",
        )
    if program.bound and threads > program.bound:
        refuse(
            f"a block of {threads} threads, and `{program.name}` is bound to {program.bound}",
            "launch at most as many as `.maxntid` says",
        )
    if ctas > MOST_CTAS:
        refuse(f"a grid of {ctas} CTAs", f"at most {MOST_CTAS} are simulated; run a part of it")
    most = limits.cluster_blocks
    if math.prod(cluster) > most:
        refuse(f"a cluster of {math.prod(cluster)} CTAs", f"at most {most} are allowed")
    if program.cluster and cluster != program.cluster:
        refuse(
            f"a cluster of {list(cluster)}", f"`{program.name}` requires {list(program.cluster)}"
        )
    for name, extent, part in zip("xyz", grid, cluster, strict=True):
        if extent % part:
            refuse(
                f"the grid has {extent} CTAs in {name} and the cluster {part}",
                "the grid must be a multiple of the cluster",
            )
