"""What is in the buffers of a spec before the launch, and what must be in them after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike, NDArray

from warpsmith.sim.entries import Spec, integers, listed, positive, refuse, shown, table, word
from warpsmith.sim.machine import Buffer
from warpsmith.sim.simulate import Expectation

Array = NDArray[Any]

MOST_BYTES: Final = 1 << 32
"""All buffers of a launch together: what one of them can address."""
DTYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
    *("float8_e4m3", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
)
# Initial contents that a kernel must not read: outputs and workspaces.
_UNDEFINED: Final = frozenset({"nan", "undefined"})
_ENTRIES: Final = ("dtype", "shape", "init", "npy", "open", "settled")
_EXPECTED: Final = ("npy", "rtol", "atol")
_MOST_DIMENSIONS: Final = 32


def buffers_of(
    spec: Spec, given: Mapping[str, ArrayLike], seed: int, folder: Path
) -> tuple[Buffer, ...]:
    """The buffers of a launch; arrays in `given` take the place of what the spec says."""
    entries = table(spec.get("buffers", {}), "`buffers`")
    for name in given:
        if name not in entries:
            refuse(
                f"an array is given for `{name}`, which is no buffer of the spec",
                f"buffers are {listed(tuple(entries))}",
            )
    made = []
    total = 0
    for position, (name, content) in enumerate(entries.items()):
        entry = table(content, f"buffer `{name}`", _ENTRIES)
        total += _declared_bytes(entry, name)
        _check_total(total)
        rng = np.random.default_rng([seed, position])
        if name in given:
            array = _checked(np.asarray(given[name]), entry, f"the array for `{name}`")
        else:
            array = initial_array(entry, rng, name, folder)
        if "shape" not in entry:
            total += array.nbytes
            _check_total(total)
        defined = name in given or entry.get("init") not in _UNDEFINED
        said = {what: entry.get(what, False) for what in ("open", "settled")}
        for what, value in said.items():
            if not isinstance(value, bool):
                refuse(f"buffer `{name}` has {what} {shown(value)}", "it is true or false")
        made.append(Buffer(name=name, array=array, defined=defined, **said))
    return tuple(made)


def initial_array(entry: Spec, rng: np.random.Generator, name: str, folder: Path = Path()) -> Array:
    """The contents of a buffer before the launch."""
    if "npy" in entry:
        if "init" in entry:
            refuse(f"buffer `{name}` has `npy` and `init`", "give one of them")
        path = folder / word(entry["npy"], f"`npy` of buffer `{name}`")
        return _checked(_load_npy(path, f"buffer `{name}`"), entry, str(path))
    for key in ("dtype", "shape", "init"):
        if key not in entry:
            refuse(f"buffer `{name}` has no `{key}`", "give `dtype`, `shape` and `init`, or `npy`")
    dtype, shape = _dtype(entry["dtype"], name), _shape(entry["shape"], name)
    makers: dict[str, Callable[[], Array]] = {
        "randn": lambda: rng.standard_normal(shape, np.float32).astype(dtype),
        "uniform": lambda: rng.random(shape, np.float32).astype(dtype),
        "randint": lambda: rng.integers(0, 128, shape).astype(dtype),
        "arange": lambda: np.arange(math.prod(shape)).reshape(shape).astype(dtype),
        "zeros": lambda: np.zeros(shape, dtype),
        "ones": lambda: np.ones(shape, dtype),
        "nan": lambda: _poisoned(shape, dtype),
        "undefined": lambda: _poisoned(shape, dtype),
    }
    init = word(entry["init"], f"`init` of buffer `{name}`")
    if init not in makers:
        refuse(f"buffer `{name}` has init {shown(init)}", f"it must be among {', '.join(makers)}")
    with np.errstate(all="ignore"):  # arange may not fit a small type
        return makers[init]()


def expectations_of(spec: Spec, buffers: Sequence[Buffer], folder: Path) -> dict[str, Expectation]:
    """What the spec says that buffers must hold after the launch."""
    arrays = {buffer.name: buffer.array for buffer in buffers}
    wanted = {}
    for name, content in table(spec.get("expect", {}), "`expect`").items():
        entry = table(content, f"`expect` of `{name}`", _EXPECTED)
        if "npy" not in entry:
            refuse(f"`expect` of `{name}` has no `npy`", "name the file of the reference values")
        path = folder / word(entry["npy"], f"`npy` of `expect` of `{name}`")
        wanted[name] = expectation(
            _load_npy(path, f"`expect` of `{name}`"),
            arrays,
            name,
            rtol=positive(entry.get("rtol", 1e-5), f"`rtol` of `{name}`"),
            atol=positive(entry.get("atol", 0.0), f"`atol` of `{name}`"),
        )
    return wanted


def expectation(
    values: ArrayLike, arrays: Mapping[str, Array], name: str, *, rtol: float, atol: float
) -> Expectation:
    """What buffer `name` must hold. Raises SimulationError where the values do not fit it."""
    if name not in arrays:
        refuse(f"`expect` names `{name}`", f"buffers are {listed(tuple(arrays))}")
    like, found = arrays[name], np.asarray(values)
    if found.shape != like.shape:
        refuse(
            f"`expect` of `{name}` has shape {list(found.shape)}",
            f"the buffer has {list(like.shape)}",
        )
    if found.dtype.kind == "V" and found.dtype.name.startswith("void"):
        found = _viewed(found, like.dtype, f"`expect` of `{name}`")
    elif found.dtype.name not in DTYPES:
        refuse(f"`expect` of `{name}` has dtype {found.dtype}", f"it must be {', '.join(DTYPES)}")
    return Expectation(values=found, rtol=rtol, atol=atol)


def _poisoned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    if dtype.kind in "fV" or "float" in dtype.name:
        return np.full(shape, np.nan).astype(dtype)
    return np.full(shape, 0x5A, np.int64).astype(dtype)


def _dtype(name: object, buffer: str) -> np.dtype[Any]:
    if not isinstance(name, str) or name not in DTYPES:
        refuse(
            f"buffer `{buffer}` has dtype {shown(name)}", f"it must be among {', '.join(DTYPES)}"
        )
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def _shape(shape: object, buffer: str) -> tuple[int, ...]:
    return integers(shape, f"`shape` of buffer `{buffer}`", (0, _MOST_DIMENSIONS))


def _declared_bytes(entry: Spec, name: str) -> int:
    """Before anything is allocated: what a buffer with a shape takes."""
    if "shape" not in entry or "dtype" not in entry:
        return 0
    return math.prod(_shape(entry["shape"], name)) * _dtype(entry["dtype"], name).itemsize


def _check_total(size: int) -> None:
    if size > MOST_BYTES:
        refuse(f"the buffers take {size} bytes", f"at most {MOST_BYTES} are simulated")


def _checked(array: Array, entry: Spec, what: str) -> Array:
    """An array as the entry describes it, where it does."""
    name = what
    if "dtype" in entry:
        dtype = _dtype(entry["dtype"], name)
        if array.dtype.kind == "V" and array.dtype.name.startswith("void"):
            array = _viewed(array, dtype, what)
        if array.dtype.newbyteorder("=") != dtype:
            refuse(f"{what} has dtype {array.dtype}", f"the spec says {dtype}")
    if array.dtype.name not in DTYPES:
        rule = f"it must be among {', '.join(DTYPES)}"
        if array.dtype.kind == "V" and array.dtype.names is None:
            rule = "say in the spec which `dtype` these bytes are"
        refuse(f"{what} has dtype {array.dtype}", rule)
    if "shape" in entry and array.shape != (shape := _shape(entry["shape"], name)):
        refuse(f"{what} has shape {list(array.shape)}", f"the spec says {list(shape)}")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _viewed(array: Array, dtype: np.dtype[Any], what: str) -> Array:
    """Bytes of a type that .npy files cannot name, bfloat16 say, as that type."""
    if array.dtype.itemsize != dtype.itemsize or array.dtype.names is not None:
        refuse(f"{what} has elements of {array.dtype.itemsize} bytes", f"{dtype} is expected")
    return array.view(dtype)


def _load_npy(path: Path, what: str) -> Array:
    try:
        loaded = np.load(path, allow_pickle=False)
    except OSError as failure:
        refuse(f"{what}: {path} cannot be read: {failure.strerror or failure}")
    except (ValueError, EOFError, SyntaxError) as failure:
        refuse(f"{what}: {path} is no .npy file of numbers: {str(failure).splitlines()[0]}")
    if not isinstance(loaded, np.ndarray):
        refuse(f"{what}: {path} holds several arrays", "give a .npy file, not .npz")
    found: Array = loaded
    return found
