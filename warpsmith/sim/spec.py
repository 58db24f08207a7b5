"""A launch written down: the spec, a JSON object, and the arrays that it describes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from warpsmith.errors import SimulationError
from warpsmith.sim import tensor_maps
from warpsmith.sim.machine import SHARED_LIMIT, Buffer, Dim3, Launch, address_of
from warpsmith.sim.program import Parameter, Program
from warpsmith.sim.simulate import Expectation

Spec = Mapping[str, Any]
Array = NDArray[Any]

SCALARS: Final[Mapping[str, Any]] = {
    "u8": np.uint8,
    "i8": np.int8,
    "u16": np.uint16,
    "i16": np.int16,
    "u32": np.uint32,
    "i32": np.int32,
    "u64": np.uint64,
    "i64": np.int64,
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
# Initial contents that a kernel must not read: outputs and workspaces.
_UNDEFINED: Final = frozenset({"nan", "undefined"})
_KEYS: Final = frozenset(
    (
        *("kernel", "grid", "block", "cluster", "shared_bytes", "registers"),
        *("buffers", "params", "outputs", "expect"),
    )
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
        spec = json.loads(path.read_text())
    except OSError as failure:
        _refuse(f"the spec {path} cannot be read: {failure.strerror or failure}")
    except ValueError as failure:
        _refuse(f"the spec {path} is not JSON: {failure}")
    if not isinstance(spec, dict):
        _refuse(f"the spec {path} is a {type(spec).__name__}; it must be an object")
    return spec


def prepare(
    program: Program,
    spec: Spec,
    *,
    arrays: Mapping[str, Array] | None = None,
    expected: Mapping[str, Expectation] | None = None,
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
    for key in spec:
        if key not in _KEYS:
            _refuse(f"the spec has an entry `{key}`", f"entries are {', '.join(sorted(_KEYS))}")
    given = dict(arrays or {})
    buffers = _buffers(spec, given, seed, folder)
    block, cluster = _dim3(spec, "block"), _dim3(spec, "cluster", program.cluster or (1, 1, 1))
    grid = _dim3(spec, "grid")
    threads = int(np.prod(block))
    _check_extents(program, grid, block, cluster)
    launch = Launch(
        program=program,
        grid=grid,
        block=block,
        cluster=cluster,
        dynamic_shared=_count(spec, "shared_bytes", 0),
        registers=_count(spec, "registers", entry_registers(program, threads)),
        buffers=buffers,
        parameters=b"",
    )
    if launch.shared_end - 1024 > SHARED_LIMIT:
        _refuse(
            f"a CTA takes {launch.shared_end - 1024} bytes of shared memory",
            f"at most {SHARED_LIMIT} are there",
        )
    launch, parameters = _parameters(program, spec, launch)
    wanted = {**_expectations(spec, buffers, folder), **(expected or {})}
    names = tuple(buffer.name for buffer in buffers)
    outputs = tuple(spec.get("outputs", ()))
    for name in (*outputs, *wanted):
        if name not in names:
            _refuse(f"there is no buffer `{name}` among {', '.join(names) or 'none'}")
    return Job(launch=replace(launch, parameters=parameters), outputs=outputs, expected=wanted)


def entry_registers(program: Program, threads: int) -> int:
    """Registers a thread at entry when the spec does not say: as many as the launch bound allows.

    ptxas gives a kernel that uses `setmaxnreg` exactly these.
    """
    if program.max_registers:
        return program.max_registers
    bound = max(program.bound or threads, threads) * max(program.min_blocks, 1)
    warps = -(-bound // 32)
    return max(min(65_536 // (warps * 32) // 8 * 8, 255), 16)


def initial_array(
    buffer: Spec, rng: np.random.Generator, name: str, folder: Path = Path()
) -> Array:
    """The contents of a buffer before the launch."""
    if "npy" in buffer:
        return _load_npy(folder / str(buffer["npy"]), name)
    for key in ("dtype", "shape", "init"):
        if key not in buffer:
            _refuse(f"buffer `{name}` has no `{key}`", "give `dtype`, `shape` and `init`, or `npy`")
    dtype, init = _dtype(str(buffer["dtype"]), name), str(buffer["init"])
    shape = tuple(int(extent) for extent in buffer["shape"])
    makers: dict[str, Callable[[], Array]] = {
        "randn": lambda: rng.standard_normal(shape, np.float32).astype(dtype),
        "uniform": lambda: rng.random(shape, np.float32).astype(dtype),
        "randint": lambda: rng.integers(0, 128, shape).astype(dtype),
        "arange": lambda: np.arange(int(np.prod(shape))).reshape(shape).astype(dtype),
        "zeros": lambda: np.zeros(shape, dtype),
        "ones": lambda: np.ones(shape, dtype),
        "nan": lambda: _poisoned(shape, dtype),
        "undefined": lambda: _poisoned(shape, dtype),
    }
    if init not in makers:
        _refuse(f"buffer `{name}` has init `{init}`", f"it must be among {', '.join(makers)}")
    return makers[init]()


def _poisoned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "fV" or "float" in dtype.name:
        return np.full(shape, np.nan).astype(dtype)
    return np.full(shape, 0x5A, np.int64).astype(dtype)


# ---- Entries of the spec ----


def _refuse(what: str, rule: str = "", code: str = "WS0801") -> NoReturn:
    raise SimulationError(what, code=code, remedy=rule)


def _dim3(spec: Spec, key: str, default: Dim3 | None = None) -> Dim3:
    value = spec.get(key, default)
    if value is None:
        _refuse(f"the spec has no `{key}`", "give three positive integers")
    if not isinstance(value, list | tuple) or not all(
        isinstance(extent, int) and extent > 0 for extent in value
    ):
        _refuse(f"`{key}` is {value!r}", "it must be one to three positive integers")
    if not 1 <= len(value) <= 3:
        _refuse(f"`{key}` has {len(value)} extents", "it must have one to three")
    x, y, z = (*value, 1, 1)[:3]
    return (x, y, z)


def _count(spec: Spec, key: str, default: int) -> int:
    value = spec.get(key, default)
    if not isinstance(value, int) or value < 0:
        _refuse(f"`{key}` is {value!r}", "it must be a number that is not negative")
    return value or default if key == "registers" else value


def _check_extents(program: Program, grid: Dim3, block: Dim3, cluster: Dim3) -> None:
    threads = int(np.prod(block))
    if threads > 1024:
        _refuse(f"a block of {threads} threads", "at most 1024 are allowed")
    if program.bound and threads > program.bound:
        _refuse(
            f"a block of {threads} threads, and `{program.name}` is bound to {program.bound}",
            "launch at most as many as `.maxntid` says",
        )
    if int(np.prod(cluster)) > 16:
        _refuse(f"a cluster of {int(np.prod(cluster))} CTAs", "at most 16 are allowed")
    if program.cluster and cluster != program.cluster:
        _refuse(f"a cluster of {cluster}", f"`{program.name}` requires {program.cluster}")
    for name, extent, part in zip("xyz", grid, cluster, strict=True):
        if extent % part:
            _refuse(
                f"the grid has {extent} CTAs in {name} and the cluster {part}",
                "the grid must be a multiple of the cluster",
            )


def _dtype(name: str, buffer: str) -> np.dtype[Any]:
    try:
        return np.dtype(getattr(ml_dtypes, name, None) or name)
    except TypeError:
        _refuse(f"buffer `{buffer}` has dtype `{name}`", "use a NumPy or ml_dtypes name")


def _load_npy(path: Path, name: str) -> Array:
    try:
        loaded: Array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as failure:
        _refuse(f"buffer `{name}`: {path} cannot be read: {failure}")
    return loaded


def _buffers(spec: Spec, given: Mapping[str, Array], seed: int, folder: Path) -> tuple[Buffer, ...]:
    entries = spec.get("buffers", {})
    if not isinstance(entries, dict):
        _refuse("`buffers` is not an object", "give one entry a buffer, by name")
    for name in given:
        if name not in entries:
            _refuse(f"an array is given for `{name}`, which is no buffer of the spec")
    made = []
    for position, (name, entry) in enumerate(entries.items()):
        rng = np.random.default_rng([seed, position])
        array = given[name] if name in given else initial_array(entry, rng, name, folder)
        defined = name in given or entry.get("init") not in _UNDEFINED
        if array.nbytes >= 1 << 32:
            _refuse(f"buffer `{name}` has {array.nbytes} bytes", "at most 4 GiB are simulated")
        made.append(Buffer(name=name, array=array, defined=defined))
    return tuple(made)


def _expectations(spec: Spec, buffers: Sequence[Buffer], folder: Path) -> dict[str, Expectation]:
    entries: Mapping[str, Any] = spec.get("expect", {})
    sizes = {buffer.name: buffer.array.size for buffer in buffers}
    wanted = {}
    for name, entry in entries.items():
        if not isinstance(entry, dict) or "npy" not in entry:
            _refuse(f"`expect` of `{name}` has no `npy`", "name the file of the reference values")
        values = _load_npy(folder / str(entry["npy"]), name)
        if name in sizes and values.size != sizes[name]:
            _refuse(f"`expect` of `{name}` has {values.size} elements", f"it has {sizes[name]}")
        wanted[name] = Expectation(
            values=values, rtol=float(entry.get("rtol", 1e-5)), atol=float(entry.get("atol", 0.0))
        )
    return wanted


# ---- The parameter buffer ----


def _parameters(program: Program, spec: Spec, launch: Launch) -> tuple[Launch, bytes]:
    entries = spec.get("params", [])
    if not isinstance(entries, list) or len(entries) != len(program.parameters):
        got = len(entries) if isinstance(entries, list) else 0
        _refuse(
            f"the spec gives {got} params and `{program.name}` takes {len(program.parameters)}",
            _signature(program),
        )
    image = bytearray(max((each.offset + each.size for each in program.parameters), default=0))
    positions = {buffer.name: at for at, buffer in enumerate(launch.buffers)}
    buffers = list(launch.buffers)
    for at, (entry, parameter) in enumerate(zip(entries, program.parameters, strict=True)):
        value = _bytes_of(entry, positions, f"param {at}", parameter)
        if "tensormap" in entry and parameter.size == 8:
            # The kernel takes a pointer: the map lies in a buffer of its own.
            array = np.frombuffer(value, np.uint8)
            buffers.append(Buffer(name=f"tensormap of param {at}", array=array))
            value = address_of(len(buffers) - 1).to_bytes(8, "little")
        if len(value) != parameter.size:
            _refuse(
                f"param {at} ({_kind(entry)}) has {len(value)} bytes and `{parameter.name}` takes "
                f"{parameter.size}",
                _signature(program),
            )
        image[parameter.offset : parameter.offset + parameter.size] = value
    return replace(launch, buffers=tuple(buffers)), bytes(image)


def _signature(program: Program) -> str:
    takes = ", ".join(f"{each.name}: {each.size} bytes" for each in program.parameters)
    return f"`{program.name}` takes {takes or 'nothing'}"


def _kind(entry: Any) -> str:
    return next(iter(entry)) if isinstance(entry, dict) and len(entry) == 1 else repr(entry)


def _bytes_of(
    entry: Any, positions: Mapping[str, int], what: str, parameter: Parameter | None = None
) -> bytes:
    if not isinstance(entry, dict) or len(entry) != 1:
        _refuse(
            f"{what} is {entry!r}", "give one of ptr, struct, tensormap, bytes or a scalar type"
        )
    ((kind, value),) = entry.items()
    if kind == "ptr":
        return _address(value, positions, what).to_bytes(8, "little")
    if kind == "null":
        return bytes(parameter.size if parameter else 8)
    if kind == "bytes":
        return bytes.fromhex(str(value))
    if kind == "struct":
        return _struct(value, positions, what)
    if kind == "tensormap":
        return _tensor_map(value, positions, what).encode()
    if kind not in SCALARS:
        _refuse(
            f"{what} is of kind `{kind}`", f"kinds are ptr, struct, tensormap, {', '.join(SCALARS)}"
        )
    try:
        return np.array(value, SCALARS[kind]).tobytes()
    except (OverflowError, ValueError, TypeError):
        _refuse(f"{what} is {value!r}", f"it must be a number that {kind} can hold")


def _address(value: Any, positions: Mapping[str, int], what: str) -> int:
    name, offset = (value, 0) if isinstance(value, str) else (value.get("buffer"), 0)
    if isinstance(value, dict):
        offset = int(value.get("offset", 0))
    if name not in positions:
        _refuse(f"{what} points to `{name}`", f"buffers are {', '.join(positions) or 'none'}")
    return address_of(positions[name]) + offset


def _struct(fields: Any, positions: Mapping[str, int], what: str) -> bytes:
    """Fields one behind the other, each aligned to its size, as C lays them out."""
    image = b""
    widest = 1
    for at, entry in enumerate(fields):
        value = _bytes_of(entry, positions, f"{what} field {at}")
        align = 64 if "tensormap" in entry else min(len(value), 8) or 1
        widest = max(widest, align)
        image += bytes(-len(image) % align) + value
    return image + bytes(-len(image) % widest)


def _tensor_map(
    entry: Mapping[str, Any], positions: Mapping[str, int], what: str
) -> tensor_maps.TensorMap:
    for key in ("buffer", "dtype", "dims", "strides_bytes", "box"):
        if key not in entry:
            _refuse(f"the tensor map of {what} has no `{key}`")
    rank = len(entry["dims"])
    words = {
        "dtype": (tensor_maps.TYPES, entry["dtype"]),
        "swizzle": (tensor_maps.SWIZZLES, entry.get("swizzle", "none")),
        "interleave": (tensor_maps.INTERLEAVES, entry.get("interleave", "none")),
        "fill": (tensor_maps.FILLS, entry.get("fill", "zero")),
    }
    for key, (table, word) in words.items():
        if word not in table:
            _refuse(f"{key} `{word}` of {what}", f"it must be among {', '.join(table)}")
    lengths = {"strides_bytes": rank - 1, "box": rank, "element_strides": rank}
    for key, length in lengths.items():
        if key in entry and len(entry[key]) != length:
            _refuse(f"`{key}` of {what} has {len(entry[key])} entries", f"it must have {length}")
    return tensor_maps.TensorMap(
        address=_address(
            {"buffer": entry["buffer"], "offset": entry.get("offset", 0)}, positions, what
        ),
        dtype=entry["dtype"],
        dims=tuple(entry["dims"]),
        strides_bytes=tuple(entry["strides_bytes"]),
        box=tuple(entry["box"]),
        element_strides=tuple(entry.get("element_strides", (1,) * rank)),
        interleave=words["interleave"][1],
        swizzle=words["swizzle"][1],
        fill=words["fill"][1],
    )
