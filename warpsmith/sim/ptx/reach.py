"""Which names a kernel uses, its functions included."""

from __future__ import annotations

from dataclasses import field

from warpsmith.sim.ptx.syntax import (
    Address,
    Argument,
    Block,
    Call,
    Declaration,
    Function,
    Statement,
    Symbol,
    TensorAddress,
    Vector,
)
from warpsmith.values import dataclass


@dataclass(slots=True)
class Reach:
    """Names that stand in the bodies, and the variables of static life that are declared there."""

    names: set[str] = field(default_factory=set)
    declarations: list[Declaration] = field(default_factory=list)


def reached(entry: Function, functions: dict[str, Function]) -> Reach:
    """What the bodies of `entry` and of all that it calls use."""
    reach = Reach()
    seen = {entry.name}
    pending = [entry]
    while pending:
        function = pending.pop()
        if function.body is not None:
            _collect(function.body, reach)
        for name, called in functions.items():
            if name in reach.names and name not in seen:
                seen.add(name)
                pending.append(called)
    return reach


def _collect(block: Block, reach: Reach) -> None:
    names = reach.names
    for item in block.items:
        if isinstance(item, Statement):
            for argument in item.arguments:
                names.update(_names(argument))
        elif isinstance(item, Call):
            names.add(item.name)
            for scalar in (*item.arguments, *item.results):
                names.update(_names(scalar))
        elif isinstance(item, Declaration):
            if item.space not in ("param", "local"):
                reach.declarations.append(item)
        elif isinstance(item, Block):
            _collect(item, reach)


def _names(argument: Argument) -> tuple[str, ...]:
    if isinstance(argument, Symbol):
        return (argument.name,)
    if isinstance(argument, Address | TensorAddress):
        return _names(argument.base)
    if isinstance(argument, Vector):
        return tuple(name for item in argument.items for name in _names(item))
    return ()
