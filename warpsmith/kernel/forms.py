"""What a class of statements declares, collected once as the class is defined."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import Field
from inspect import get_annotations
from typing import ClassVar

from warpsmith.errors import InternalError
from warpsmith.kernel.effects import (
    KEY,
    Barrier,
    Body,
    Declaration,
    Defines,
    Expression,
    Kept,
    Memory,
    Nested,
    Orders,
    Plain,
    Scratch,
)
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of one class, by what they are; each in the order of the class.

    Attributes:
        declared: all of them, with their declarations.
        orders: what a statement is to others besides; None where its fields say all.
        has_body: whether statements stand inside.
        scalars: fields in which there are expressions, those of nested values included.
        memory, barriers: with their declarations.
    """

    declared: tuple[tuple[str, Declaration], ...]
    orders: Orders | None
    has_body: bool
    scalars: tuple[str, ...]
    defines: tuple[str, ...]
    memory: tuple[tuple[str, Memory], ...]
    kept: tuple[str, ...]
    scratch: tuple[str, ...]
    barriers: tuple[tuple[str, Barrier], ...]
    nested: tuple[str, ...]


class Declared:
    """Base of classes whose fields all say what they are (`kernel/effects.py`).

    A subclass may say `orders=` besides, and must if none of its fields is more than plain.

    Attributes:
        _read: elements that its expressions read, once `kernel/traversal.py` has found them; kept
            because each pass asks again of what it leaves as it is.

    Raises:
        InternalError: a field declares nothing, or the class does; as the class is defined.
    """

    __slots__ = ("_read",)

    form: ClassVar[Form]

    @property
    def words(self) -> str:
        """A template (`kernel/printer.py`), an attribute of most classes; empty for none."""
        return ""

    def __init_subclass__(cls, *, orders: Orders | None = None) -> None:
        if "form" not in cls.__dict__:  # the copy that `slots=True` makes has it from the first
            cls.form = _collected(cls, orders)


def _collected(cls: type[Declared], orders: Orders | None) -> Form:
    inherited: Form | None = getattr(cls, "form", None)
    declared = dict(inherited.declared) if inherited else {}
    declared |= _own(cls)
    if orders is None and inherited is not None and inherited.orders is not Orders.NOTHING:
        orders = inherited.orders
    if orders is None and all(isinstance(each, Plain) for each in declared.values()):
        raise InternalError(
            f"{cls.__name__} declares no effect: none of its fields is more than plain, and it "
            "says no `orders=`"
        )

    def names(*kinds: type[Declaration]) -> tuple[str, ...]:
        return tuple(name for name, each in declared.items() if isinstance(each, kinds))

    return Form(
        declared=tuple(declared.items()),
        orders=orders,
        has_body=bool(names(Body)),
        scalars=names(Expression, Barrier, Nested),
        defines=names(Defines),
        memory=tuple((n, each) for n, each in declared.items() if isinstance(each, Memory)),
        kept=names(Kept),
        scratch=names(Scratch),
        barriers=tuple((n, each) for n, each in declared.items() if isinstance(each, Barrier)),
        nested=names(Nested),
    )


def _own(cls: type[Declared]) -> Iterator[tuple[str, Declaration]]:
    """The fields that a class adds, with their declarations."""
    for name, annotation in get_annotations(cls).items():
        if str(annotation).startswith(("ClassVar", "typing.ClassVar")):
            continue
        given = cls.__dict__.get(name)
        declaration = given.metadata.get(KEY) if isinstance(given, Field) else None
        if declaration is None:
            raise InternalError(
                f"{cls.__name__}.{name} does not say what it is: give it "
                "`field(metadata=...)` with a function of kernel/effects.py, such as `plain()`"
            )
        if isinstance(declaration, Body) and name != "body":
            raise InternalError(f"{cls.__name__}.{name} holds statements, and is to be `body`")
        yield name, declaration
