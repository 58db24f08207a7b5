"""Modules that `bench.host` calls, forward and with gradients: ours, and torch's of those words."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

ROWS, COLUMNS, WORDS = 16, 64, 100

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Module:
    """A module and what it is called with.

    Attributes:
        make: of a namespace, `torch.nn` or `warpsmith.nn`, the module or function.
        values, targets: shapes of the arguments that have gradients, and of class numbers or words
            that come before or behind them.
        words_first: the numbers come first.
    """

    make: Callable[[Any], Any]
    values: tuple[tuple[int, ...], ...] = ((ROWS, COLUMNS),)
    targets: tuple[int, ...] | None = None
    words_first: bool = False


def _swiglu(nn: Any) -> Any:
    ours = getattr(nn.functional, "swiglu", None)
    return ours or (lambda gate, up: nn.functional.silu(gate) * up)


MODULES = {
    "rms_norm": Module(lambda nn: nn.RMSNorm(COLUMNS, eps=1e-6)),
    "layer_norm": Module(lambda nn: nn.LayerNorm(COLUMNS)),
    "softmax": Module(lambda nn: nn.Softmax(-1)),
    "cross_entropy": Module(lambda nn: nn.CrossEntropyLoss(), targets=(ROWS,)),
    "swiglu": Module(_swiglu, values=((ROWS, COLUMNS),) * 2),
    "embedding": Module(
        lambda nn: nn.functional.embedding, ((WORDS, COLUMNS),), (ROWS,), words_first=True
    ),
}


def call_of(module: Module, nn: Any, *, backward: bool, device: str, wide: bool = False) -> Call:
    """A call: its result, and with `backward` the gradients of what the module has, and was given.

    All numbers are the same from call to call; `wide` ones are doubles.
    """
    import torch

    draw = torch.Generator().manual_seed(1)

    def drawn(*shape: int) -> Any:
        number = torch.randn(shape, generator=draw).to(device)
        return number.double() if wide else number

    made = module.make(nn)
    leaves = [drawn(*shape) for shape in module.values]
    own = list(made.parameters()) if isinstance(made, torch.nn.Module) else []
    for parameter in own:
        parameter.data = drawn(*parameter.shape)
    given = list(leaves)
    if module.targets is not None:
        most = WORDS if module.words_first else COLUMNS
        numbers = torch.randint(most, module.targets, generator=draw).to(device)
        given.insert(0 if module.words_first else len(given), numbers)
    run = functools.partial(made, *given)
    for leaf in (*leaves, *own):
        leaf.requires_grad_(backward)
    if not backward:
        return run
    dy = drawn(*run().shape)

    def trained() -> tuple[Any, ...]:
        for leaf in (*leaves, *own):
            leaf.grad = None
        y = run()
        y.backward(dy)
        return y.detach(), *(leaf.grad for leaf in (*leaves, *own))

    return trained
