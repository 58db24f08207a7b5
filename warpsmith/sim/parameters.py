"""The parameter buffer of a launch: bytes of the values that a spec gives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import ml_dtypes
import numpy as np

from warpsmith.sim import tensor_maps
from warpsmith.sim.entries import (
    Spec,
    integer,
    integers,
    is_integer,
    listed,
    refuse,
    shown,
    table,
    word,
)
from warpsmith.sim.machine import Buffer, Launch, address_of
from warpsmith.sim.program import Parameter, Program

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
_KINDS: Final = ("ptr", "null", "bytes", "struct", "tensormap", *SCALARS)
_DEEPEST: Final = 16  # structs within structs
_LARGEST: Final = 32_764  # bytes of parameters, sm_70 and later
_MAP_ENTRIES: Final = (
    *("buffer", "offset", "dtype", "dims", "strides_bytes", "box", "element_strides"),
    *("interleave", "swizzle", "fill"),
)


def with_parameters(program: Program, spec: Spec, launch: Launch) -> Launch:
    """The launch with the spec's parameters, and with the tensor maps that lie in memory."""
    entries = spec.get("params", [])
    if not isinstance(entries, list | tuple):
        refuse(f"`params` is {shown(entries)}", "it must be a list")
    if len(entries) != len(program.parameters):
        refuse(
            f"the spec gives {len(entries)} params and `{program.name}` takes "
            f"{len(program.parameters)}",
            _signature(program),
        )
    image = bytearray(max((each.offset + each.size for each in program.parameters), default=0))
    positions = {buffer.name: at for at, buffer in enumerate(launch.buffers)}
    buffers = list(launch.buffers)
    for at, (entry, parameter) in enumerate(zip(entries, program.parameters, strict=True)):
        value = _bytes_of(entry, positions, f"param {at}", parameter)
        if "tensormap" in entry and parameter.size == 8:
            # The kernel takes a pointer: the map lies in a buffer of its own.
            name = f"tensormap of param {at}"
            if name in positions:
                refuse(f"a buffer is called `{name}`", "the map of that parameter is called so")
            buffers.append(Buffer(name=name, array=np.frombuffer(value, np.uint8)))
            value = address_of(len(buffers) - 1).to_bytes(8, "little")
        if len(value) != parameter.size:
            refuse(
                f"param {at} ({next(iter(entry))}) has {len(value)} bytes and `{parameter.name}` "
                f"takes {parameter.size}",
                _signature(program),
            )
        image[parameter.offset : parameter.offset + parameter.size] = value
    return replace(launch, buffers=tuple(buffers), parameters=bytes(image))


def _signature(program: Program) -> str:
    takes = [f"{each.name}: {each.size} bytes" for each in program.parameters]
    return f"`{program.name}` takes {listed(takes) if takes else 'nothing'}"


def _bytes_of(
    entry: Any,
    positions: Mapping[str, int],
    what: str,
    parameter: Parameter | None = None,
    depth: int = 0,
) -> bytes:
    if not isinstance(entry, Mapping) or len(entry) != 1:
        refuse(f"{what} is {shown(entry)}", f"it must be an object with one of {', '.join(_KINDS)}")
    ((kind, value),) = entry.items()
    if kind == "ptr":
        return _address(value, positions, what).to_bytes(8, "little")
    if kind == "null":
        return bytes(parameter.size if parameter else 8)
    if kind == "bytes":
        try:
            return bytes.fromhex(word(value, f"`bytes` of {what}"))
        except ValueError:
            refuse(f"`bytes` of {what} is {shown(value)}", "it must be hexadecimal digits")
    if kind == "struct":
        return _struct(value, positions, what, depth)
    if kind == "tensormap":
        return _tensor_map(value, positions, what)
    if kind not in SCALARS:
        refuse(f"{what} is of kind {shown(kind)}", f"kinds are {', '.join(_KINDS)}")
    return _scalar(kind, value, what)


def _scalar(kind: str, value: object, what: str) -> bytes:
    whole = kind[0] in "ui"
    rule = f"it must be {'an integer' if whole else 'a number'} that {kind} can hold"
    if not is_integer(value) and (whole or not isinstance(value, float)):
        refuse(f"{what} is {shown(value)}", rule)
    assert isinstance(value, int | float)
    try:
        with np.errstate(over="ignore"):
            made = np.array(value if whole else float(value), SCALARS[kind])
    except OverflowError:
        refuse(f"{what} is {shown(value)}", rule)
    if not whole and np.isinf(made) and not math.isinf(value):
        refuse(f"{what} is {shown(value)}", rule)
    return made.tobytes()


def _align_of(entry: Mapping[str, Any]) -> int:
    """Of a value as a field of a struct."""
    ((kind, value),) = entry.items()
    if kind == "struct":
        return max(map(_align_of, value), default=1)
    if kind in SCALARS:
        return int(np.dtype(SCALARS[kind]).itemsize)
    return {"tensormap": 64, "bytes": 1}.get(kind, 8)


def _address(value: Any, positions: Mapping[str, int], what: str) -> int:
    if isinstance(value, str):
        value = {"buffer": value}
    entry = table(value, f"`ptr` of {what}", ("buffer", "offset"))
    if (name := entry.get("buffer")) is None:
        refuse(f"`ptr` of {what} has no `buffer`", f"buffers are {listed(tuple(positions))}")
    return _place(name, entry.get("offset", 0), positions, what)


def _place(name: object, offset: object, positions: Mapping[str, int], what: str) -> int:
    if not isinstance(name, str) or name not in positions:
        refuse(f"{what} points to {shown(name)}", f"buffers are {listed(tuple(positions))}")
    return address_of(positions[name]) + integer(offset, f"`offset` of {what}", 0, (1 << 32) - 1)


def _struct(fields: Any, positions: Mapping[str, int], what: str, depth: int) -> bytes:
    """Fields one behind the other, each aligned as its type demands, as C lays them out."""
    if not isinstance(fields, list | tuple):
        refuse(f"`struct` of {what} is {shown(fields)}", "it must be a list of values")
    if depth >= _DEEPEST:
        refuse(f"{what} holds structs in structs", f"at most {_DEEPEST} within each other")
    image = bytearray()
    widest = 1
    for at, entry in enumerate(fields):
        value = _bytes_of(entry, positions, f"{what} field {at}", depth=depth + 1)
        align = _align_of(entry)
        widest = max(widest, align)
        image += bytes(-len(image) % align) + value
        if len(image) > _LARGEST:
            refuse(f"{what} has more than {_LARGEST} bytes", "that is all that can be passed")
    return bytes(image + bytes(-len(image) % widest))


def _tensor_map(content: Any, positions: Mapping[str, int], what: str) -> bytes:
    entry = table(content, f"the tensor map of {what}", _MAP_ENTRIES)
    for key in ("buffer", "dtype", "dims", "strides_bytes", "box"):
        if key not in entry:
            refuse(f"the tensor map of {what} has no `{key}`")
    words = {
        "dtype": (tensor_maps.TYPES, entry["dtype"]),
        "swizzle": (tensor_maps.SWIZZLES, entry.get("swizzle", "none")),
        "interleave": (tensor_maps.INTERLEAVES, entry.get("interleave", "none")),
        "fill": (tensor_maps.FILLS, entry.get("fill", "zero")),
    }
    for key, (known, chosen) in words.items():
        if not isinstance(chosen, str) or chosen not in known:
            refuse(f"{key} {shown(chosen)} of {what}", f"it must be among {', '.join(known)}")
    dims = integers(entry["dims"], f"`dims` of {what}", (1, tensor_maps.RANK), 1, 1 << 32)
    rank = len(dims)
    return tensor_maps.TensorMap(
        address=_place(entry["buffer"], entry.get("offset", 0), positions, what),
        dtype=entry["dtype"],
        dims=dims,
        strides_bytes=integers(
            entry["strides_bytes"], f"`strides_bytes` of {what}", (rank - 1, rank - 1), 0, 1 << 40
        ),
        box=integers(entry["box"], f"`box` of {what}", (rank, rank), 1, 256),
        element_strides=integers(
            entry.get("element_strides", (1,) * rank),
            f"`element_strides` of {what}",
            (rank, rank),
            1,
            8,
        ),
        interleave=words["interleave"][1],
        swizzle=words["swizzle"][1],
        fill=words["fill"][1],
    ).encode()
