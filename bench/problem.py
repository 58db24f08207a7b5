"""A problem: one program on inputs of one size, for everybody to run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Tensors = tuple[Any, ...]
Builder = Callable[[Tensors], Callable[[], Any]]
"""From inputs to a call that starts the work on them and returns the outputs."""

ITEM_BYTES = {"bfloat16": 2, "float": 4, "int64": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What is measured.

    Attributes:
        suite: the family it is listed under.
        name: the work.
        shapes: extents of every input.
        dtype: dtype of the inputs.
        eager: the program in PyTorch; in float64 it is the reference.
        fused: the program on warpsmith's traced tensors.
        define: the program in nvFuser's words: `define(fd, DataType, *tensors)`.
        builders: implementations besides those, by name, for peers that have one.
        bytes_written: fewest bytes that any implementation writes.
        ceiling: `traffic` to be held against copies, `read` against read passes, `tensor_cores`
            against the rate at which they multiply.
        operations: additions and multiplications on tensor cores.
        in_float: positions of the inputs that are float whatever the dtype is.
        below: by position, inputs of whole numbers, int64, and what all of these are less than.
        known_as: extents by which the problem is known; those of the first input by default.
        redrawn: where implementations draw numbers of their own: what the outputs of one should be
            in float64, from the inputs and those outputs, by what it drew. Raises ValueError where
            it drew wrongly.
    """

    suite: str
    name: str
    shapes: tuple[tuple[int, ...], ...]
    dtype: str
    eager: Callable[..., Any]
    fused: Callable[..., Any]
    define: Callable[..., None]
    bytes_written: int
    ceiling: Literal["traffic", "read", "tensor_cores"] = "traffic"
    operations: int = 0
    in_float: tuple[int, ...] = ()
    below: Mapping[int, int] = field(default_factory=dict)
    known_as: tuple[int, ...] = ()
    builders: Mapping[str, Builder] = field(default_factory=dict)
    redrawn: Callable[[Tensors, Tensors], Tensors] | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents by which the problem is known."""
        return self.known_as or self.shapes[0]

    @property
    def bytes_moved(self) -> int:
        """Fewest bytes read and written: every input once, every output once."""
        items = zip(self.shapes, self.dtypes, strict=True)
        read = sum(math.prod(shape) * ITEM_BYTES[dtype] for shape, dtype in items)
        return read + self.bytes_written

    @property
    def title(self) -> str:
        """`silu_mul 8192x1024 bfloat16`."""
        return f"{self.name} {'x'.join(map(str, self.shape))} {self.dtype}"

    def draw(self, device: str = "cuda") -> Tensors:
        """Fresh inputs, normal(0, 1), or even where they are whole numbers."""
        import torch

        return tuple(
            torch.randint(self.below[place], shape, device=device)
            if place in self.below
            else torch.randn(shape, dtype=torch_dtype(dtype), device=device)
            for place, (shape, dtype) in enumerate(zip(self.shapes, self.dtypes, strict=True))
        )

    @property
    def dtypes(self) -> tuple[str, ...]:
        """The dtype of each input."""
        known = {**dict.fromkeys(self.in_float, "float"), **dict.fromkeys(self.below, "int64")}
        return tuple(known.get(place, self.dtype) for place in range(len(self.shapes)))


def planned(problem: Problem, **knobs: object) -> Builder:
    """What warpsmith chooses for a problem under some knobs, planned once for all calls."""

    def build(inputs: Tensors) -> Callable[[], Any]:
        import warpsmith
        from warpsmith.engine.executable import Executable
        from warpsmith.knobs import scope

        with scope(**knobs):
            lowered = warpsmith.fuse(problem.fused).lower(*inputs)
            ready = Executable(lowered.fusion).prepared(inputs)
        return lambda: ready(inputs)

    return build


def torch_dtype(dtype: str) -> Any:
    """PyTorch's name of a dtype of this benchmark."""
    import torch

    return {"bfloat16": torch.bfloat16, "float": torch.float32}[dtype]


def type_named(types: Any, dtype: str) -> Any:
    """The member of nvFuser's `DataType`, or of warpsmith's, for a dtype of this benchmark."""
    return {"bfloat16": types.BFloat16, "float": types.Float}[dtype]


def outputs_of(result: Any) -> Tensors:
    """Outputs as a tuple, however an implementation returns them."""
    return tuple(result) if isinstance(result, tuple | list) else (result,)
