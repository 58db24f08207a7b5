"""Operations of `nvfuser_direct`, by types and layouts of their operands, against PyTorch.

    python -m tests.support.nvfuser_matrix [OPERATION ...]

prints for each operation how many of its cases agree, and what the others say.
"""

import io
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import torch

from tests.support.nvfuser_operations import OPERATIONS, TYPES, Operand, Operation
from warpsmith.errors import WarpsmithError
from warpsmith.frontends import nvfuser_direct
from warpsmith.frontends.nvfuser_direct import FusionDefinition

AGREES = "agrees"
Make = Callable[[Sequence[int]], torch.Tensor]


def _sliced(make: Make, shape: Sequence[int]) -> torch.Tensor:
    """Every second element of all dimensions but the last, from the second on in that one."""
    whole = make([*(2 * extent for extent in shape[:-1]), *(extent + 3 for extent in shape[-1:])])
    return whole[tuple(slice(0, None, 2) for _ in shape[:-1])][..., 1 : shape[-1] + 1]


def _expanded(make: Make, shape: Sequence[int]) -> torch.Tensor:
    return make([1, *shape[1:]]).expand(*shape)


def _misaligned(make: Make, shape: Sequence[int]) -> torch.Tensor:
    """Its first element is the second one of its memory."""
    count = torch.Size(shape).numel()
    return make([count + 1])[1:].view(*shape)


LAYOUTS: dict[str, Callable[[Make, Sequence[int]], torch.Tensor]] = {
    "contiguous": lambda make, shape: make(shape),
    "permuted": lambda make, shape: make(shape[::-1]).permute(*range(len(shape))[::-1]),
    "sliced": _sliced,
    "expanded": _expanded,
    "misaligned": _misaligned,
    "empty": lambda make, shape: make([0, *shape[1:]]),
}


def operand(
    wanted: Operand, layout: str, dtype: torch.dtype, seed: int, fixed: bool
) -> torch.Tensor:
    """A tensor of an operand's kind in a layout."""
    generator = torch.Generator().manual_seed(seed)

    def make(shape: Sequence[int]) -> torch.Tensor:
        return _numbers(wanted.kind, tuple(shape), dtype, generator)

    if wanted.kind == "order" and layout in ("expanded", "misaligned", "sliced"):
        layout = "contiguous"  # of two of one column's numbers one would win
    if layout == "empty" and fixed:
        return make([*wanted.shape[:-1], 0]) if wanted.kind == "x" else make(wanted.shape)
    return LAYOUTS[layout](make, wanted.shape)


def _numbers(
    kind: str, shape: Sequence[int], dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    """Numbers that every type holds exactly, or nearly; without zeros, also in complex ones."""
    if dtype.is_complex and kind not in ("index", "order", "bool"):
        part = dtype.to_real()
        both = [_numbers(kind, shape, part, generator) for _ in range(2)]
        return torch.complex(*both)
    if kind == "index":
        return torch.randint(0, 4, shape, generator=generator)
    if kind == "order":
        return torch.rand(shape, generator=generator).argsort(0) % 4
    if kind == "bool" or dtype is torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    whole = torch.randint(1, 5, shape, generator=generator)
    if kind == "apart":
        count = torch.Size(shape).numel()
        return torch.randperm(count, generator=generator).reshape(tuple(shape)).to(dtype)
    if kind == "above" or (not dtype.is_floating_point and kind == "positive"):
        return whole.to(dtype)
    if kind == "positive":
        return (whole / 4 - 0.125).to(dtype)
    signs = torch.randint(0, 2, shape, generator=generator) * 2 - 1
    if kind == "unit":
        return (whole * signs / 5).to(dtype)
    return (whole * signs).to(dtype)


def outcome(operation: Operation, dtype: torch.dtype, layout: str) -> str | None:
    """`AGREES`, or why not; None where PyTorch has no such case."""
    given = [
        operand(wanted, layout, dtype, seed, operation.fixed)
        for seed, wanted in enumerate(operation.operands)
    ]
    expected = _by_torch(operation, given)
    if expected is None:
        return None
    quiet = io.StringIO()  # a definition that fails prints its traceback, as nvFuser's does
    try:
        with redirect_stdout(quiet), redirect_stderr(quiet), FusionDefinition() as fd:
            made = operation.call(nvfuser_direct.ops, *map(fd.from_pytorch, given))
            for each in made if isinstance(made, tuple) else (made,):
                fd.add_output(each)
        found = fd.execute(given)
    except WarpsmithError as error:
        return f"raises {error.code}: {error.message}"
    wanted = list(expected) if isinstance(expected, tuple) else [expected]
    return _compared(found, wanted)


def _by_torch(operation: Operation, given: Sequence[torch.Tensor]) -> Any:
    """What PyTorch makes of operands; None where it refuses them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return operation.peer(*given)
    except (RuntimeError, TypeError, IndexError, NotImplementedError):
        return None


def _compared(found: Sequence[Any], wanted: Sequence[torch.Tensor]) -> str:
    for got, want in zip(found, wanted, strict=True):
        if got.dtype != want.dtype:
            return f"has type {got.dtype}, PyTorch {want.dtype}"
        eight = want.is_floating_point() and want.dtype.itemsize == 1
        pair = (got.float(), want.float()) if eight else (got, want)
        try:
            torch.testing.assert_close(*pair, equal_nan=True)
        except AssertionError as error:
            return f"differs: {str(error).splitlines()[0]}"
    return AGREES


def cases() -> Iterator[tuple[Operation, str]]:
    """Every operation with every type that PyTorch takes."""
    for operation in OPERATIONS:
        for name, dtype in TYPES.items():
            given = [operand(each, "contiguous", dtype, 0, False) for each in operation.operands]
            if _by_torch(operation, given) is not None:
                yield operation, name


def main(names: Sequence[str]) -> None:
    """Count, and print."""
    agree = total = 0
    for operation in OPERATIONS:
        if names and operation.name not in names:
            continue
        outcomes: dict[str, list[str]] = {}
        for name, dtype in TYPES.items():
            for layout in LAYOUTS:
                found = outcome(operation, dtype, layout)
                if found is not None:
                    outcomes.setdefault(found, []).append(f"{name} {layout}")
        good, every = len(outcomes.get(AGREES, ())), sum(map(len, outcomes.values()))
        agree, total = agree + good, total + every
        print(f"{operation!s:24} {good:3} of {every}", flush=True)
        for said, where in outcomes.items():
            if said != AGREES:
                print(f"    {said}: {', '.join(where)}")
    print(f"{agree} of {total} agree: {100 * agree / max(total, 1):.1f} %")


if __name__ == "__main__":
    main(sys.argv[1:])
