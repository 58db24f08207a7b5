"""The doors by which the long run calls its programs: all of warpsmith's, with one meaning.

Programs of `soak_programs` go through `fuse`, both kinds of `FusionDefinition`, and torch.compile.
What `warpsmith.nn` has is called with gradients, beside torch's own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import warpsmith
from bench.soak_programs import Program, drawn
from warpsmith import DataType

Call = Callable[[Any, Any], Any]

DOORS = ("fuse", "definition", "nvfuser", "nn", "compile")


@dataclass(frozen=True, slots=True)
class Case:
    """What is called again and again.

    Attributes:
        program: what it means, as `soak_programs.check` wants it.
        tensors: whether it takes torch's tensors alone.
        least: rows and columns that it takes at least: torch.compile compiles again for 1.
    """

    door: str
    program: Any
    call: Call
    tensors: bool = False
    least: int = 1

    def __str__(self) -> str:
        return f"{self.program} through {self.door}"


def opened(door: str, random_: random.Random) -> Case:
    """A program that is drawn, behind one of `DOORS`."""
    if door == "nn":
        trained = Trained(random_.choice(list(TRAINED)))
        return Case(door, trained, lambda x, y: trained(x, y, which=0), tensors=True)
    program = drawn(random_)
    if door == "definition":
        return Case(door, program, _defined(program))
    if door == "nvfuser":
        return Case(door, program, _for_nvfuser(program), tensors=True)
    if door == "compile":
        return Case(door, program, _compiled(program), tensors=True, least=2)
    return Case(door, program, program.fused)


def _defined(program: Program) -> Call:
    """Through warpsmith's own definition."""
    with warpsmith.FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        y = fd.define_tensor([1 if program.one_row else -1, -1], contiguity=True)
        for result in _several(program(x, y, which=0)):
            fd.add_output(result)
    return lambda x, y: fd.execute([x, y])


def _for_nvfuser(program: Program) -> Call:
    """Through nvFuser's definition."""
    from warpsmith.frontends import nvfuser_direct

    with nvfuser_direct.FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        y = fd.define_tensor([1 if program.one_row else -1, -1], contiguity=True)
        for result in _several(program(Named(fd, x), Named(fd, y), which=0)):
            fd.add_output(result.value)
    return lambda x, y: fd.execute([x, y])


def _compiled(program: Program) -> Call:
    """Through torch's compiler, for all sizes at once.

    Each program is a function of its own: torch keeps what it compiles with a function's code, and
    gives up after some.
    """
    import torch

    from warpsmith.torch_backend.backend import backend

    def called(x: Any, y: Any) -> Any:
        return program(x, y, which=1)

    own = FunctionType(called.__code__.replace(), globals(), "called", None, called.__closure__)
    return torch.compile(own, backend=backend, dynamic=True, fullgraph=True)  # type: ignore[no-any-return]


class Named:
    """A tensor of nvFuser's definition, which has no operators, with those of the programs."""

    def __init__(self, fd: Any, value: Any) -> None:
        self.fd, self.value = fd, value

    def by(self, name: str, *others: Any, **options: Any) -> Any:
        """What an operation makes of this and other values."""
        plain = (each.value if isinstance(each, Named) else each for each in others)
        return Named(self.fd, getattr(self.fd.ops, name)(self.value, *plain, **options))

    def __add__(self, other: Any) -> Any:
        return self.by("add", other)

    def __sub__(self, other: Any) -> Any:
        return self.by("sub", other)

    def __mul__(self, other: Any) -> Any:
        return self.by("mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return self.by("div", other)

    def shape(self) -> list[Any]:
        return [self.value.size(dim) for dim in range(2)]

    # the operations of `soak_programs`, by their names in `warpsmith.ops`

    def tanh(self, a: Named) -> Any:
        return a.by("tanh")

    def relu(self, a: Named) -> Any:
        return a.by("relu")

    def sigmoid(self, a: Named) -> Any:
        return a.by("sigmoid")

    def rsqrt(self, a: Named) -> Any:
        return a.by("rsqrt")

    def max(self, a: Named, dims: list[int], keepdim: bool) -> Any:
        return a.by("max", dims, keepdim=keepdim)

    def mean(self, a: Named, dims: list[int], keepdim: bool = False) -> Any:
        return a.by("sum", dims, keepdim=keepdim) / a.shape()[dims[0]]

    def cast(self, a: Named, dtype: DataType) -> Any:
        """As floats again: a product's result has its operands' type there."""
        from warpsmith.frontends import nvfuser_direct

        types = nvfuser_direct.DataType
        rounded = a.by("cast", dtype=types[dtype.name])
        return rounded.by("cast", dtype=types.Float)

    def transpose(self, a: Named, first: int, second: int) -> Any:
        return a.by("permute", [second, first])

    def matmul(self, a: Named, b: Named, dtype: DataType) -> Any:
        return a.by("matmul", b)


TRAINED: Mapping[str, Callable[[Any, Any, Any], Any]] = {
    "layer_norm": lambda f, x, w: f.layer_norm(x, w.shape, w, w),
    "rms_norm": lambda f, x, w: f.rms_norm(x, w.shape, w, 1e-5),
    "softmax": lambda f, x, w: f.softmax(x * w, -1),
    "log_softmax": lambda f, x, w: f.log_softmax(x * w, -1),
}
"""Functions of `nn.functional`, warpsmith's or torch's, of rows and a weight of each column."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A function of `nn` forward and backward; `which` as of `Program`."""

    name: str
    one_row: bool = True

    def __call__(self, x: Any, y: Any, *, which: int) -> Any:
        """The result, and the gradients of both arguments."""
        import torch

        functional: Any = torch.nn.functional if which else warpsmith.nn.functional
        x, weight = x.detach().requires_grad_(), y[0].detach().requires_grad_()
        result = TRAINED[self.name](functional, x, weight)
        part = torch.linspace(-1, 1, result.shape[1], dtype=x.dtype, device=x.device)
        return (result.detach(), *torch.autograd.grad((result * part).sum(), [x, weight]))


def _several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)
