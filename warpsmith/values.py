"""Frozen values: dataclasses whose methods are compiled once for all with as many fields.

`dataclasses.dataclass` writes the text of seven functions for each frozen class with slots, and
compiles it: 0.4 ms a class, at every import. Here functions of fields `f0`, `f1`, ... are compiled
once, and a class gets them with the names of its own fields in their place.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from functools import cache
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, **others):
        """As `dataclasses.dataclass`, which makes those with an `order`.

        What derives from such a class is made here, too: to `dataclasses` none of them is frozen.
        """
        if "order" in others:
            return dataclasses.dataclass(cls, frozen=frozen, eq=eq, **others)

        def made(cls):
            cls.__doc__ = cls.__doc__ or cls.__name__  # else a signature is looked for
            own = {name for name, method in cls.__dict__.items() if method is not None}
            cls = dataclasses.dataclass(init=False, repr=False, eq=False, **others)(cls)
            for name, method in _methods(cls, frozen, eq):
                if name not in own:
                    setattr(cls, name, method)
            return cls

        return made if cls is None else made(cls)


_MADE = object()
"""An argument that is not given, and that a factory makes."""


def _methods(
    cls: type[Any], frozen: bool, eq: bool
) -> Iterator[tuple[str, Callable[..., Any] | None]]:
    known = fields(cls)
    yield "__init__", _initializer(cls, [f for f in known if f.init])
    yield "__repr__", _text_of([f.name for f in known if f.repr])
    if frozen:
        yield "__setattr__", _refuse_to_set
        yield "__delattr__", _refuse_to_delete
        if "__slots__" in cls.__dict__:
            yield "__getstate__", _state
            yield "__setstate__", _restore
    if eq:
        compared = [f.name for f in known if f.compare]
        hashed = [f.name for f in known if (f.compare if f.hash is None else f.hash)]
        yield "__eq__", _renamed(_equal(len(compared)), compared)
        yield "__hash__", _renamed(_hash(len(hashed)), hashed) if frozen else None


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in fields(self)]


def _restore(self: Any, state: list[Any]) -> None:
    for f, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)


def _text_of(names: Sequence[str]) -> Callable[[Any], str]:
    def text(self: Any) -> str:
        said = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({said})"

    return text


def _initializer(cls: type[Any], given: Sequence[Field[Any]]) -> Callable[..., None]:
    """An `__init__` that sets slots by their descriptors, as `object.__setattr__` does slower."""
    first, rest = [f for f in given if not f.kw_only], [f for f in given if f.kw_only]
    given = (*first, *rest)
    made = tuple(k for k, f in enumerate(given) if f.default_factory is not MISSING)
    slots = [getattr(cls, f.name).__set__ for f in given] if "__slots__" in cls.__dict__ else []
    build = _setting(len(given), bool(slots), made, hasattr(cls, "__post_init__"))
    function = build(*slots, *[given[k].default_factory for k in made])
    function = _renamed(function, [f.name for f in given], len(rest))
    defaults = {f.name: f.default for f in given if f.default is not MISSING}
    defaults |= {given[k].name: _MADE for k in made}
    function.__defaults__ = tuple(defaults[f.name] for f in first if f.name in defaults)
    function.__kwdefaults__ = {f.name: defaults[f.name] for f in rest if f.name in defaults}
    return function


def _renamed(function: FunctionType, names: Sequence[str], by_name: int = 0) -> FunctionType:
    """The function with these names in place of `f0`, `f1`, ...; the last come `by_name` alone."""
    known: dict[Any, Any] = {f"f{k}": name for k, name in enumerate(names)}
    code = function.__code__
    code = code.replace(
        co_names=tuple([known.get(name, name) for name in code.co_names]),
        co_varnames=tuple([known.get(name, name) for name in code.co_varnames]),
        co_consts=tuple([known.get(value, value) for value in code.co_consts]),
        co_argcount=code.co_argcount - by_name,
        co_kwonlyargcount=by_name,
    )
    return FunctionType(code, function.__globals__, closure=function.__closure__)


@cache
def _equal(count: int) -> FunctionType:
    own, others = (_tuple([f"{who}.f{k}" for k in range(count)]) for who in ("self", "other"))
    return _compiled(
        "def __eq__(self, other):",
        " if self is other:",
        "  return True",
        " if other.__class__ is not self.__class__:",
        "  return NotImplemented",
        f" return {own} == {others}",
    )


@cache
def _hash(count: int) -> FunctionType:
    return _compiled(
        "def __hash__(self):",
        f" return hash({_tuple([f'self.f{k}' for k in range(count)])})",
    )


@cache
def _setting(count: int, slots: bool, made: tuple[int, ...], after: bool) -> FunctionType:
    """Makes an `__init__`, given the setters of `slots` and factories of the arguments `made`.

    `after` all there is `__post_init__`.
    """
    names = [f"f{k}" for k in range(count)]
    setters = [f"slot{k}" for k in range(count)] if slots else []
    values = [
        f"make{k}() if f{k} is _MADE else f{k}" if k in made else f"f{k}" for k in range(count)
    ]
    if slots:
        lines = [f"{setter}(self, {value})" for setter, value in zip(setters, values, strict=True)]
    else:
        lines = [f"put(self, {n!r}, {value})" for n, value in zip(names, values, strict=True)]
    return _compiled(
        f"def build({', '.join([*setters, *[f'make{k}' for k in made]])}):",
        f" def __init__({', '.join(['self', *names])}):",
        *[f"  {line}" for line in lines],
        "  self.__post_init__()" if after else "  pass",
        " return __init__",
    )


def _tuple(items: Sequence[str]) -> str:
    return f"({''.join([f'{item}, ' for item in items])})"


def _compiled(*lines: str) -> FunctionType:
    made: dict[str, FunctionType] = {}
    exec("\n".join(lines), {"_MADE": _MADE, "put": object.__setattr__}, made)
    (function,) = made.values()
    return function
