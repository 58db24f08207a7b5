"""The fusion that is being defined."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar, Token
from typing import Any

from warpsmith.frontends.nvfuser_direct.failures import FusionError
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.frontends.nvfuser_direct.statements import Val
from warpsmith.frontends.nvfuser_direct.values import TensorView

_CURRENT: ContextVar[Fusion | None] = ContextVar("nvfuser_direct.fusion", default=None)


class FusionGuard:
    """Makes a fusion the one that operations without operands belong to."""

    def __init__(self, fusion: Fusion) -> None:
        self._token: Token[Fusion | None] = _CURRENT.set(fusion)

    def leave(self) -> None:
        """The fusion before is the current one again."""
        _CURRENT.reset(self._token)


def current() -> Fusion:
    """The fusion that is being defined.

    Raises:
        FusionError: WS0191 outside of `with FusionDefinition()`.
    """
    fusion = _CURRENT.get()
    if fusion is None:
        raise FusionError(
            "there is no fusion that is being defined",
            code="WS0191",
            remedy="define operations inside of `with FusionDefinition() as fd:`",
        )
    return fusion


def fusion_of(arguments: Sequence[Any]) -> Fusion:
    """The fusion of the first value among some arguments; else the current one."""
    for value in arguments:
        for each in value if isinstance(value, list | tuple) else (value,):
            if isinstance(each, Val):
                assert isinstance(each.fusion, Fusion)
                return each.fusion
    return current()


def define_tensor(*args: Any, **kwargs: Any) -> TensorView:
    """An input tensor of the current fusion; see `Fusion.define_tensor`."""
    return current().define_tensor(*args, **kwargs)


def define_scalar(*args: Any, **kwargs: Any) -> Val:
    """A scalar input, or a constant, of the current fusion; see `Fusion.define_scalar`."""
    return current().define_scalar(*args, **kwargs)
