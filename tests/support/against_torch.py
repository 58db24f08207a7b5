"""A function of tensors as a fusion, evaluated, and compared with what PyTorch makes of it."""

from collections.abc import Callable
from typing import Any

import torch

from warpsmith.frontends.definition import FusionDefinition
from warpsmith.ir.dtypes import DataType
from warpsmith.ops.evaluate import evaluate
from warpsmith.runtime import arrays

TORCH = {
    DataType.Double: torch.float64,
    DataType.Float: torch.float32,
    DataType.Half: torch.float16,
    DataType.BFloat16: torch.bfloat16,
    DataType.Int: torch.int64,
    DataType.Int32: torch.int32,
    DataType.Int16: torch.int16,
    DataType.Int8: torch.int8,
    DataType.UInt8: torch.uint8,
    DataType.Bool: torch.bool,
    DataType.Float8_e4m3fn: torch.float8_e4m3fn,
    DataType.Float8_e5m2: torch.float8_e5m2,
}
FLOAT8S = (DataType.Float8_e4m3fn, DataType.Float8_e5m2)
DTYPES = tuple(dtype for dtype in TORCH if dtype not in FLOAT8S)  # which promote each other
FLOATS = tuple(dtype for dtype in DTYPES if dtype.is_float)


def random(shape: tuple[int, ...], dtype: DataType, seed: int = 0) -> torch.Tensor:
    """Numbers from -4 to 4 that every type holds exactly, without zeros."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(1, 5, shape, generator=generator)
    signs = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    if dtype is DataType.Bool:
        return signs > 0
    return (values * signs).to(TORCH[dtype])


def defined(function: Callable[..., Any], *args: Any, static: bool = False) -> FusionDefinition:
    """The fusion of a function; tensors and numbers among `args` become its inputs."""
    with FusionDefinition() as fd:
        inputs = []
        for arg in args:
            if isinstance(arg, torch.Tensor):
                inputs.append(fd.from_pytorch(arg, static_sizes=static))
            else:
                kind = {bool: DataType.Bool, int: DataType.Int, float: DataType.Double}
                inputs.append(fd.define_scalar(kind[type(arg)]))
        results = function(*inputs)
        for result in results if isinstance(results, tuple) else (results,):
            fd.add_output(result)
    return fd


def results(
    function: Callable[..., Any], *args: Any, static: bool = False, precise: bool = False
) -> list[torch.Tensor]:
    """Values of the function by the evaluator."""
    fd = defined(function, *args, static=static)
    host = [arrays.to_numpy(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
    like = torch.zeros(())
    return [arrays.from_numpy(r, like) for r in evaluate(fd.fusion, host, precise=precise)]


def check(
    function: Callable[..., Any],
    peer: Callable[..., Any],
    *args: Any,
    static: bool = False,
    tolerance: float | None = None,
) -> None:
    """Types, shapes and values must be PyTorch's; values up to `tolerance`, or torch's default."""
    expected = peer(*args)
    found = results(function, *args, static=static)
    for got, want in zip(
        found, expected if isinstance(expected, tuple) else (expected,), strict=True
    ):
        assert got.dtype == want.dtype
        assert got.shape == want.shape
        torch.testing.assert_close(
            got, want, equal_nan=True, rtol=tolerance, atol=None if tolerance is None else tolerance
        )
