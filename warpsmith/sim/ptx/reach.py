"""Which names a kernel uses, its functions included."""

from __future__ import annotations

from warpsmith.sim.ptx.syntax import (
    Address,
    Argument,
    Block,
    Call,
    Declaration,
    Function,
    Pair,
    Statement,
    Symbol,
    TensorAddress,
    Vector,
)


def reached(entry: Function, functions: dict[str, Function]) -> dict[str, Declaration | None]:
    """Names that stand in the bodies of `entry` and of all that it calls, in their order.

    A variable that is declared in one of the bodies has its declaration behind its name.
    """
    names: dict[str, Declaration | None] = {}
    seen = {entry.name}
    pending = [entry]
    while pending:
        function = pending.pop()
        if function.body is not None:
            _collect(function.body, names)
        for name in list(names):
            if name in functions and name not in seen:
                seen.add(name)
                pending.append(functions[name])
    return names


def _collect(block: Block, names: dict[str, Declaration | None]) -> None:
    for item in block.items:
        if isinstance(item, Statement):
            for argument in item.arguments:
                for name in _names(argument):
                    names.setdefault(name, None)
        elif isinstance(item, Call):
            names.setdefault(item.name, None)
            for scalar in (*item.arguments, *item.results):
                if isinstance(scalar, Symbol):
                    names.setdefault(scalar.name, None)
        elif isinstance(item, Declaration):
            if item.space not in ("param", "local"):
                names[f"{item.name} {item.line}"] = item
        elif isinstance(item, Block):
            _collect(item, names)


def _names(argument: Argument) -> tuple[str, ...]:
    if isinstance(argument, Symbol):
        return (argument.name,)
    if isinstance(argument, Address):
        return _names(argument.base)
    if isinstance(argument, Vector):
        return tuple(name for item in argument.items for name in _names(item))
    if isinstance(argument, TensorAddress):
        return _names(argument.base)
    if isinstance(argument, Pair):
        return ()
    return ()
