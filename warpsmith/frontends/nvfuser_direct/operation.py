"""How a function of warpsmith's values becomes an operation of `nvfuser_direct.ops`."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

from warpsmith.frontends.nvfuser_direct import checks, complex_ops, seeds, text
from warpsmith.frontends.nvfuser_direct.failures import as_runtime_errors
from warpsmith.frontends.nvfuser_direct.fusion import Fusion
from warpsmith.frontends.nvfuser_direct.guard import fusion_of
from warpsmith.frontends.nvfuser_direct.pairs import Pair
from warpsmith.frontends.nvfuser_direct.values import bare
from warpsmith.ir.scalar import Expr
from warpsmith.ir.tensor import TensorView

Function = Callable[..., Any]


def operation(function: Function) -> Function:
    """The function, for nvFuser's values, with a line in the text of the fusion.

    A parameter `fusion` is no argument: it gets the fusion that the operands belong to.
    """
    signature = inspect.signature(function)
    takes_fusion = "fusion" in signature.parameters
    shown = [each for each in signature.parameters.values() if each.name != "fusion"]
    visible = signature.replace(parameters=shown)
    name = function.__name__

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        given = visible.bind(*args, **kwargs).arguments
        checks.dimensions(name, given)
        seeds.check(name, given)
        fusion = fusion_of(list(given.values()))
        rest = {"fusion": fusion} if takes_fusion else {}
        with as_runtime_errors():
            operands = {key: bare(value) for key, value in given.items()}
            if complex_ops.concerned(operands):
                made = complex_ops.apply(name, operands, partial(function, **rest))
            else:
                made = function(**operands, **rest)
        return _kept(fusion, name, visible, given, made)

    call.__signature__ = visible  # type: ignore[attr-defined]  # as inspect documents it
    return call


def _kept(
    fusion: Fusion, name: str, visible: inspect.Signature, given: dict[str, Any], made: Any
) -> Any:
    """The results under nvFuser's names, and their line; none where all of them were there."""
    several = isinstance(made, tuple | list)
    values = [_value(each) for each in (made if several else [made])]
    is_new = not all(map(fusion.knows, values))
    results = [fusion.wrapped(each) for each in values]
    if is_new:
        said = text.call(name, visible.parameters, given, results)
        fusion.record(results, list(given.values()), said)
    return tuple(results) if several else results[0]


def _value(made: object) -> Any:
    assert isinstance(made, TensorView | Expr | Pair)
    return made


def named(name: str, parameters: str, function: Function) -> Function:
    """An operation that is a function of warpsmith, with nvFuser's names of its arguments.

    Args:
        parameters: names, with defaults such as `dim=-1`.
    """
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    shown: list[inspect.Parameter] = []
    for word in parameters.split():
        own, _, default = word.partition("=")
        value = ast.literal_eval(default) if default else inspect.Parameter.empty
        shown.append(inspect.Parameter(own, kind, default=value))

    def by_name(**given: Any) -> Any:
        return function(*(given.get(each.name, each.default) for each in shown))

    by_name.__name__ = by_name.__qualname__ = name
    by_name.__doc__ = function.__doc__
    by_name.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]  # as inspect documents it
    return operation(by_name)
