"""Arrays of NumPy and PyTorch under one description, and conversions between the two."""

from __future__ import annotations

import math
import sys
from functools import cache
from typing import Any, Literal, NamedTuple

import ml_dtypes
import numpy as np

from warpsmith.errors import ArgumentError

Kind = Literal["numpy", "torch"]
DeviceKind = Literal["cpu", "cuda"]

NUMPY_DTYPES: dict[str, np.dtype[Any]] = {
    "double": np.dtype(np.float64),
    "float": np.dtype(np.float32),
    "half": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8_e4m3fn": np.dtype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
    "int64": np.dtype(np.int64),
    "int32": np.dtype(np.int32),
    "int16": np.dtype(np.int16),
    "int8": np.dtype(np.int8),
    "uint8": np.dtype(np.uint8),
    "bool": np.dtype(np.bool_),
}
"""The dtypes that warpsmith takes, and what NumPy calls them."""

# NumPy has none of these itself, and PyTorch converts no tensor of them: integers stand in.
_CARRIERS = {
    name: np.dtype(f"i{dtype.itemsize}")
    for name, dtype in NUMPY_DTYPES.items()
    if dtype.type.__module__ == "ml_dtypes"
}
_FROM_NUMPY = {dtype: name for name, dtype in NUMPY_DTYPES.items()}


class ArrayInfo(NamedTuple):
    """What a kernel has to know of an array.

    Strides count elements. `pointer` is the address of the first element, on the device where the
    array is. A named tuple and no dataclass: one is made for each argument of each launch, and
    making it takes a third of the time.
    """

    kind: Kind
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device_kind: DeviceKind
    ordinal: int
    pointer: int


def describe(array: object) -> ArrayInfo:
    """Describe a NumPy array, or a PyTorch tensor on the CPU or on a GPU.

    Raises ArgumentError for other objects, dtypes, devices and layouts.
    """
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        return _describe_tensor(array)
    if isinstance(array, np.ndarray):
        return _describe_numpy(array)
    raise _not_an_array(array)


def adopt(array: object) -> Any:
    """An array that `describe` takes: the same one, or a view of it through DLPack.

    A tensor of PyTorch's that other devices still send (`AsyncCollectiveTensor`) is waited for.
    Host memory becomes a NumPy array, device memory a PyTorch tensor. Raises ArgumentError for
    what is no array.
    """
    if not is_foreign(array):
        arriving = getattr(array, "trigger_wait", None)
        return array if arriving is None else arriving()
    place = getattr(array, "__dlpack_device__", None)
    if place is None:
        raise _not_an_array(array)
    on_host = int(place()[0]) == 1  # kDLCPU
    try:
        if on_host:
            # NumPy's protocol has none of the dtypes that came after NumPy.
            dtype: Any = getattr(array, "dtype", None)
            later = _FROM_NUMPY.get(dtype, "") in _CARRIERS
            return np.asarray(array) if later else np.from_dlpack(array)  # type: ignore[arg-type]
        import torch as importer

        return importer.from_dlpack(array)
    except (ImportError, BufferError, RuntimeError, TypeError) as refusal:
        raise ArgumentError(
            f"{_type_name(array)} cannot be viewed through DLPack: {refusal}",
            remedy="pass a NumPy array or a PyTorch tensor",
        ) from refusal


def is_foreign(array: object) -> bool:
    """Whether an array is neither NumPy's nor PyTorch's."""
    torch = sys.modules.get("torch")
    return not isinstance(array, np.ndarray if torch is None else (np.ndarray, torch.Tensor))


def returned(result: Any, like: object) -> Any:
    """A result as an array of the library of `like`, a foreign array that `adopt` took.

    What is on a GPU is viewed through DLPack; of what is on the host the library makes an array.
    A result stays what it is where the library has no functions by the names of the array API.
    """
    named = getattr(like, "__array_namespace__", None)
    library = named() if named else sys.modules.get(type(like).__module__.partition(".")[0])
    make = "asarray" if isinstance(result, np.ndarray) else "from_dlpack"
    return getattr(library, make, lambda own: own)(result)


def start_of(tensor: Any) -> int:
    """What a call depends on of where a tensor of PyTorch's begins: bytes behind a multiple of 16.

    Below 0 where that says too little: it has no memory, or is negated on reading.
    """
    address: int = tensor.data_ptr()
    return address & 15 if address and not tensor.is_neg() else -1


def consists_of_others(tensor: Any) -> bool:
    """Whether a tensor of PyTorch's has no memory of its own, as a `DTensor`."""
    return hasattr(tensor, "__tensor_flatten__")


def to_numpy(array: Any) -> np.ndarray:
    """A NumPy array with the elements of `array`: a view of what is on the host, a copy of else."""
    if isinstance(array, np.ndarray):
        return array
    dtype = describe(array).dtype
    host = array.detach().cpu()
    if dtype in _CARRIERS:
        import torch

        host = host.view(getattr(torch, _CARRIERS[dtype].name))
    converted = np.from_dlpack(host)  # behind `host.numpy()` PyTorch resizes that memory no more
    return converted.view(NUMPY_DTYPES[dtype])


def from_numpy(array: np.ndarray, like: object) -> Any:
    """`array` as what `like` is: itself, or a tensor on `like`'s device, without a copy if it can.

    Raises ArgumentError for a dtype that warpsmith does not take.
    """
    info = describe(like)
    if info.kind == "numpy":
        return array
    dtype = _describe_numpy(array).dtype
    import torch

    # A tensor has no negative strides and may be written to.
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    tensor = torch.from_numpy(array.view(_CARRIERS.get(dtype, array.dtype)))
    tensor = tensor.view(torch_dtypes()[dtype])
    return tensor.to(torch_device(info.device_kind, info.ordinal))


def empty(
    shape: tuple[int, ...],
    dtype: str,
    *,
    kind: Kind,
    device_kind: DeviceKind = "cpu",
    ordinal: int = 0,
    strides: tuple[int, ...] | None = None,
) -> Any:
    """A new array with undefined elements; `strides` count elements, row-major if None.

    PyTorch's come from its own allocator on the device that is asked for; NumPy's are on the host.
    """
    if kind == "torch":
        import torch

        device = torch_device(device_kind, ordinal)
        of_dtype = torch_dtypes()[dtype]
        if strides is None:
            return torch.empty(shape, dtype=of_dtype, device=device)
        return torch.empty_strided(shape, strides, dtype=of_dtype, device=device)
    of_numpy = NUMPY_DTYPES[dtype]
    if strides is None:
        return np.empty(shape, of_numpy)
    reach = sum((extent - 1) * stride for extent, stride in zip(shape, strides, strict=True))
    buffer = np.empty(reach + 1 if math.prod(shape) else 0, of_numpy)
    in_bytes = tuple(stride * of_numpy.itemsize for stride in strides)
    return np.ndarray(shape, of_numpy, buffer, strides=in_bytes)


def _describe_tensor(tensor: Any) -> ArrayInfo:
    dtype = _names_of_torch_dtypes().get(tensor.dtype)
    if dtype is None:
        raise _unsupported_dtype(tensor.dtype)
    if consists_of_others(tensor):
        raise ArgumentError(
            f"a {type(tensor).__name__} has no memory of its own, but consists of other tensors",
            remedy="pass these, such as `tensor.to_local()` of a DTensor",
        )
    if tensor.is_neg():
        raise ArgumentError(
            "the tensor is a view whose elements PyTorch negates on reading",
            remedy="pass `tensor.resolve_neg()`",
        )
    try:
        strides = tensor.stride()
        pointer = tensor.data_ptr()
    except RuntimeError as refusal:
        raise ArgumentError(
            f"a tensor of layout {tensor.layout} has no plain memory: {refusal}",
            remedy="pass a dense tensor",
        ) from refusal
    if tensor.is_cuda:
        place: DeviceKind = "cuda"
        ordinal = tensor.get_device()
    elif tensor.is_cpu:
        place, ordinal = "cpu", 0
    else:
        raise ArgumentError(
            f"a tensor on device `{tensor.device}` is not supported",
            remedy="move it to the CPU or to a CUDA device",
        )
    if not pointer and 0 not in tensor.shape:
        raise ArgumentError(
            f"a {type(tensor).__name__} of {tuple(tensor.shape)} has no memory",
            remedy="pass a tensor whose storage is there and holds its elements",
        )
    fields = ("torch", dtype, tensor.shape, strides, place, ordinal, pointer)
    return tuple.__new__(ArrayInfo, fields)  # half the time of ArrayInfo(*fields), per argument


def _describe_numpy(array: np.ndarray) -> ArrayInfo:
    dtype = _FROM_NUMPY.get(array.dtype)
    if dtype is None:
        raise _unsupported_dtype(array.dtype)
    if isinstance(array, np.ma.MaskedArray):
        raise ArgumentError(
            "kernels would read what the array masks",
            remedy="pass `array.filled(value)`, or its mask as an argument of its own",
        )
    size = array.itemsize
    if any(stride % size for stride in array.strides):
        raise ArgumentError(
            f"strides of {array.strides} bytes are not whole elements of {size} bytes",
            remedy="pass `np.ascontiguousarray(array)`",
        )
    strides = tuple(stride // size for stride in array.strides)
    pointer: int = array.__array_interface__["data"][0]
    return ArrayInfo("numpy", dtype, array.shape, strides, "cpu", 0, pointer)


@cache
def torch_dtypes() -> dict[str, Any]:
    """The dtypes by our names, which PyTorch has, too."""
    import torch

    return {name: getattr(torch, name) for name in NUMPY_DTYPES}


@cache
def _names_of_torch_dtypes() -> dict[Any, str]:
    return {dtype: name for name, dtype in torch_dtypes().items()}


@cache
def torch_device(device_kind: DeviceKind, ordinal: int) -> Any:
    """The device as PyTorch names it."""
    import torch

    return torch.device(device_kind, ordinal if device_kind == "cuda" else None)


def _type_name(value: object) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _not_an_array(value: object) -> ArgumentError:
    return ArgumentError(
        f"a value of type {_type_name(value)} is not an array",
        remedy="pass a NumPy array or a PyTorch tensor",
    )


def _unsupported_dtype(dtype: object) -> ArgumentError:
    return ArgumentError(
        f"dtype {dtype} is not supported", remedy=f"the dtypes are {', '.join(NUMPY_DTYPES)}"
    )
