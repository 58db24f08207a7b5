"""Walks over the Kernel form, derived from what statements declare (`kernel/effects.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import is_
from typing import Any, TypeVar

from warpsmith.errors import InternalError
from warpsmith.ir.scalar import Apply, Expr, Symbol
from warpsmith.ir.substitution import substitute
from warpsmith.kernel.effects import Effect, Memory, Verb
from warpsmith.kernel.forms import Declared
from warpsmith.kernel.nodes import Buffer, Element, Statement
from warpsmith.values import dataclass

_D = TypeVar("_D", bound=Declared)
_S = TypeVar("_S", bound=Statement)


def children(statement: Statement) -> tuple[Statement, ...]:
    """Statements inside a statement."""
    return statement.body if statement.form.has_body else ()  # type: ignore[attr-defined]


def walk(statements: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, parents first."""
    coming = list(reversed(statements))
    while coming:
        statement = coming.pop()
        yield statement
        coming += children(statement)[::-1]


def with_body(statement: _S, body: tuple[Statement, ...]) -> _S:
    """The statement around other ones; itself where they are the same."""
    old = children(statement)
    if len(old) == len(body) and all(map(is_, old, body)):
        return statement
    return replace(statement, body=body)  # type: ignore[call-arg]


def map_bodies(statement: _S, new: Callable[[tuple[Statement, ...]], tuple[Statement, ...]]) -> _S:
    """The statement with `new` of what stands inside it; itself where nothing can."""
    return with_body(statement, new(children(statement))) if statement.form.has_body else statement


def rewritten(
    statements: tuple[Statement, ...], change: Callable[[Statement], Iterable[Statement]]
) -> tuple[Statement, ...]:
    """The statements with what `change` makes of each in its place, of those inside first."""
    return tuple(
        made
        for statement in statements
        for made in change(map_bodies(statement, lambda body: rewritten(body, change)))
    )


# --- scalar expressions ------------------------------------------------------------------------


def expressions(holder: Declared) -> tuple[Expr, ...]:
    """Scalar expressions that a statement itself holds (not those of its children)."""
    found: list[Expr] = []
    for name in holder.form.scalars:
        _gather(getattr(holder, name), found)
    return tuple(found)


def _gather(value: object, found: list[Expr]) -> None:
    if isinstance(value, Expr):
        found.append(value)
    elif isinstance(value, tuple):
        for each in value:
            _gather(each, found)
    elif isinstance(value, Declared):
        found += expressions(value)


def map_expressions(holder: _D, new: Callable[[Expr], Expr]) -> _D:
    """A statement, and all inside it, with `new` applied to every scalar expression.

    It is the same object where `new` gives back what it is given.
    """

    def change(value: Any) -> Any:
        if isinstance(value, Expr):
            return new(value)
        return map_expressions(value, new) if isinstance(value, Declared) else value

    form = holder.form
    names = (*form.scalars, "body") if form.has_body else form.scalars
    return _changed(holder, {name: _mapped(getattr(holder, name), change) for name in names})


def map_places(holder: _D, new: Callable[[Buffer, Expr], Expr]) -> _D:
    """A statement, and all inside it, with `new` applied to the index of each buffer it touches.

    Elements in its expressions are left as they are.

    Raises:
        InternalError: buffers of one index would get different ones, or an index that the statement
            computes would be another one.
    """

    def change(value: Any) -> Any:
        return map_places(value, new) if isinstance(value, Declared) else value

    form = holder.form
    names = (*form.nested, "body") if form.has_body else form.nested
    changes = {name: _mapped(getattr(holder, name), change) for name in names}
    for buffer, declared, owner in operands(holder):
        index = declared.index
        if owner is holder and index:
            old = getattr(holder, index)
            made = new(buffer, old)
            if made != (changes.setdefault(index, made) if index in form.scalars else old):
                raise InternalError(f"{type(holder).__name__} cannot move {buffer.name} alone")
    return _changed(holder, changes)


def map_buffers(holder: _D, new: Callable[[Buffer], Buffer]) -> _D:
    """A statement, and all inside it, with `new` of each buffer that it touches or keeps, and of
    those in its expressions.
    """

    def change(value: Any) -> Any:
        if isinstance(value, Buffer):
            return new(value)
        if isinstance(value, Element):
            return Element(new(value.buffer), change(value.index))
        if isinstance(value, Expr):
            return map_parts(value, change) if reads_memory(value) else value
        return map_buffers(value, new) if isinstance(value, Declared) else value

    form = holder.form
    names = {*form.scalars, *form.nested, *form.kept, *(name for name, _ in form.memory)}
    names |= {"body"} if form.has_body else set()
    return _changed(holder, {name: _mapped(getattr(holder, name), change) for name in names})


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A field's value with `change` of what it holds; the same where that is."""
    if not isinstance(value, tuple):
        return change(value)
    made = tuple([_mapped(each, change) for each in value])
    return value if all(map(is_, made, value)) else made


def _changed(holder: _D, changes: dict[str, Any]) -> _D:
    """With other values of some fields; itself where they are the same."""
    if all(value is getattr(holder, name) for name, value in changes.items()):
        return holder
    return replace(holder, **changes)  # type: ignore[type-var]


def replace_symbols(statement: _S, mapping: dict[Expr, Expr]) -> _S:
    """The statement, and all inside it, with symbols replaced, in indices of elements too."""

    def new(expr: Expr) -> Expr:
        return map_parts(expr, new) if reads_memory(expr) else substitute(expr, mapping)

    return map_expressions(statement, new)


def map_parts(expr: Expr, new: Callable[[Expr], Expr]) -> Expr:
    """An operation with `new` of its operands, an element with `new` of its index; itself where
    they are the same. Nothing is simplified again.
    """
    if isinstance(expr, Element):
        index = new(expr.index)
        return expr if index is expr.index else Element(expr.buffer, index)
    if not isinstance(expr, Apply):
        return expr
    args = tuple([new(arg) for arg in expr.args])
    return expr if all(map(is_, args, expr.args)) else Apply(expr.op, args, expr.dtype)


def reads_memory(expr: Expr) -> bool:
    """Whether an element of a buffer is in it."""
    return any(isinstance(node, Element) for node in expr.walk())


# --- names and memory --------------------------------------------------------------------------


def defined(statement: Statement) -> tuple[Symbol, ...]:
    """Names that a statement gives a value, or a new one."""
    found: tuple[Symbol, ...] = ()
    for name in statement.form.defines:
        value = getattr(statement, name)
        if value is not None:
            found += (value,) if isinstance(value, Symbol) else value.symbols
    return found


def operands(holder: Declared) -> Iterator[tuple[Buffer, Memory, Declared]]:
    """Buffers that a statement touches itself, with what is declared of them, and by whom.

    Those of nested values are theirs; elements in expressions are not among them.
    """
    form = holder.form
    for name, declared in form.memory:
        for buffer in _buffers(getattr(holder, name)):
            yield buffer, declared, holder
    for name in form.nested:
        for inner in _several(getattr(holder, name)):
            yield from operands(inner)


def effect_of(declared: Memory, holder: Declared) -> Effect:
    """How a statement, or a value in it, touches one of its buffers."""
    effect = declared.effect
    found: Effect = effect if isinstance(effect, Effect) else getattr(holder, effect)
    return found


def elements(statement: Statement) -> tuple[Element, ...]:
    """Elements that the scalar expressions of a statement itself read."""
    known: tuple[Element, ...] | None = getattr(statement, "_read", None)
    if known is None:
        nodes = (node for expr in expressions(statement) for node in expr.walk())
        known = tuple([node for node in nodes if isinstance(node, Element)])
        object.__setattr__(statement, "_read", known)
    return known


def written(statement: Statement) -> tuple[Buffer, ...]:
    """Buffers that a statement itself writes."""
    found = [b for b, declared, by in operands(statement) if effect_of(declared, by).writes]
    return (*found, *_named(statement, statement.form.kept))


def read(statement: Statement) -> tuple[Buffer, ...]:
    """Buffers that a statement itself reads."""
    found = [element.buffer for element in elements(statement)]
    found += [b for b, declared, by in operands(statement) if effect_of(declared, by).reads]
    return (*found, *_named(statement, statement.form.kept))


def is_remote(statement: Statement) -> bool:
    """Whether a statement itself reaches into another block of the cluster."""
    return any(use.remote for use in barrier_uses(statement)) or any(
        effect_of(declared, by).remote for _, declared, by in operands(statement)
    )


def scratch(statement: Statement) -> tuple[Buffer, ...]:
    """Buffers that a statement needs for itself alone."""
    return _named(statement, statement.form.scratch)


def barriers(statement: Statement, *verbs: Verb) -> tuple[Buffer, ...]:
    """Barriers at which a statement itself does one of these; by default all but init and end."""
    wanted = verbs or (Verb.EXPECT, Verb.ARRIVE, Verb.COUNT, Verb.WAIT)
    return tuple(use.barrier for use in barrier_uses(statement) if use.verb in wanted)


@dataclass(frozen=True, slots=True)
class BarrierUse:
    """What a statement does at one barrier; a remote one is that of another block."""

    barrier: Buffer
    verb: Verb
    remote: bool


def barrier_uses(statement: Statement) -> Iterator[BarrierUse]:
    """All that a statement itself does at barriers."""
    for name, declared in statement.form.barriers:
        for buffer in _buffers(getattr(statement, name)):
            yield BarrierUse(buffer, declared.verb, declared.remote)


def _named(holder: Declared, names: tuple[str, ...]) -> tuple[Buffer, ...]:
    return tuple(buffer for name in names for buffer in _buffers(getattr(holder, name)))


def _buffers(value: object) -> Iterator[Buffer]:
    """The buffers in a field: one, none, or those in a tuple."""
    if isinstance(value, Buffer):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from _buffers(each)


def _several(value: Any) -> tuple[Declared, ...]:
    if value is None:
        return ()
    return value if isinstance(value, tuple) else (value,)
