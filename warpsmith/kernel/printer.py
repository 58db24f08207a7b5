"""Kernel form as readable text, for dumps and for people.

The words of a class are a template over its fields: `{value}` is a field's value, `{stages.stages}`
what that has by this name. A buffer that is touched comes with its index, as `T1[i0]`, or as
`T1[i0 ..]` where more than one element is touched, and a barrier with its stage; `{buffers!s}` is
the name alone. What follows a colon is printed where the field is neither false nor its default:
`{by: by %}`.
"""

from __future__ import annotations

from dataclasses import MISSING
from enum import Enum
from functools import cache
from operator import attrgetter
from string import Formatter
from typing import Any

from warpsmith.ir.scalar import Expr
from warpsmith.kernel.effects import Barrier, Body, Memory, Verb
from warpsmith.kernel.forms import Declared
from warpsmith.kernel.kernel import Kernel
from warpsmith.kernel.nodes import Buffer, Statement
from warpsmith.kernel.pipelines import Pipeline
from warpsmith.kernel.traversal import children


def kernel_text(kernel: Kernel) -> str:
    """One statement a line, indented by nesting."""
    lines = [
        f"kernel {kernel.name}",
        f"  grid   {kernel.launch.grid!r}",
        f"  block  {kernel.launch.block!r}",
        f"  index  {kernel.index_type.value}",
    ]
    if kernel.launch.together:
        lines.append("  all blocks run at once")
    if kernel.launch.last_first:
        lines.append("  last blocks first")
    if kernel.launch.cluster_blocks > 1:
        lines.append(f"  cluster {kernel.launch.cluster!r}")
    lines += [f"  param  {b.name}: {b.dtype.value}[{b.size!r}]" for b in kernel.parameters]
    lines += [f"  scalar {s.name}: {s.dtype.value}" for s in kernel.scalars]
    lines += [f"  derive {s.name} = {value!r}" for s, value in kernel.derived]
    starts = {p.buffer.name: p.start for p in kernel.layout.places} if kernel.layout else {}
    lines += [
        f"  shared {b.name}: {b.dtype.value}[{b.size!r}]"
        f"{f' at {starts[b.name]!r}' if b.name in starts else ''}"
        for b in kernel.shared
    ]
    lines += [
        f"  map    {m.name} of {m.tensor}: sizes {m.sizes!r}, box {m.box}, swizzle {m.swizzle}"
        for m in kernel.tensor_maps
    ]
    lines += [f"  pipe   {_pipeline(pipeline)}" for pipeline in kernel.pipelines]
    lines += [f"  needs  {expr!r} % {divisor} == 0" for expr, divisor in kernel.requirements]
    lines += [f"  needs  {expr!r} <= {most}" for expr, most in kernel.limits]
    lines += [f"  needs  {expr!r} >= {least}" for expr, least in kernel.least]
    lines += [f"  needs  {name} aligned to {size} bytes" for name, size in kernel.alignments]
    for statement in kernel.body:
        lines += _lines(statement, 1)
    return "\n".join(lines) + "\n"


def _pipeline(of: Pipeline) -> str:
    """`T2: 3 stages of T2 by the TMA unit, load to compute, 2 ahead`."""
    text = f"{of.name}: {of.stages} stages of {', '.join(of.names) or 'nothing'} by {of.by.value}"
    if of.producer:
        text += f", {of.producer} to {', '.join(of.consumers)}"
    for each in of.contents:
        text += f", {each.name} for blocks {each.sharing}" if each.sharing else ""
    return f"{text}, {of.prefetch} ahead" if of.prefetch else text


def _lines(statement: Statement, depth: int) -> list[str]:
    inner = [line for each in children(statement) for line in _lines(each, depth + 1)]
    end = ":" if statement.form.has_body else ""
    return [f"{'  ' * depth}{text_of(statement)}{end}", *inner]


def text_of(value: Declared) -> str:
    """A statement, or a value that statements hold, without what stands inside it."""
    if not value.words:
        return _by_fields(value)
    return "".join(
        literal + (_part(value, *part) if part else "") for literal, part in _parsed(value.words)
    )


_Part = tuple[str, str, str | None]


@cache
def _parsed(words: str) -> tuple[tuple[str, _Part | None], ...]:
    """Literal texts, each with the path, the words and the conversion of the field behind it."""
    return tuple(
        (literal, None if path is None else (path, spec or "", conversion))
        for literal, path, spec, conversion in Formatter().parse(words)
    )


def _part(value: Declared, path: str, words: str, conversion: str | None) -> str:
    found = attrgetter(path)(value)
    if words and not _is_told(value, path, found):
        return ""
    text = _value(found) if conversion or "." in path else _field(value, path, found)
    return words.replace("%", text) if words else text


def _is_told(value: Declared, path: str, found: object) -> bool:
    if isinstance(found, bool) or found is None:
        return bool(found)
    field = type(value).__dataclass_fields__.get(path)  # type: ignore[attr-defined]
    default = MISSING if field is None else field.default
    return default is MISSING or found != default


def _field(value: Declared, name: str, found: object) -> str:
    """One field's text, by what it is declared to be."""
    declared = dict(value.form.declared).get(name)
    if isinstance(declared, Memory) and declared.index:
        count = declared.count if isinstance(declared.count, int) else 0
        if isinstance(declared.count, str) and declared.count:
            count = getattr(value, declared.count)
        more = "" if count == 1 else " .."
        place = f"[{_value(getattr(value, declared.index))}{more}]"
        buffers = found if isinstance(found, tuple) else (found,)
        return ", ".join(f"{_value(buffer)}{place}" for buffer in buffers)
    if isinstance(declared, Barrier):
        several = found if isinstance(found, tuple) and isinstance(found[0], tuple) else (found,)
        return ", ".join(_barrier(value, each, declared.verb) for each in several)
    return _value(found)


def _barrier(value: Declared, found: Any, verb: Verb) -> str:
    """`full[stage]`, or where it is initialized `full (4)`."""
    if isinstance(found, Buffer):
        stage = getattr(value, "stage", None)
        return found.name if stage is None else f"{found.name}[{_value(stage)}]"
    if verb is Verb.INIT:
        count = "one a warp" if found[1] is None else _value(found[1])
        return f"{found[0].name} ({count})"
    return f"{found[0].name}[{_value(found[1])}]" if verb is Verb.COUNT else _value(found)


def _value(value: object) -> str:
    if isinstance(value, Expr):
        return repr(value)
    if isinstance(value, tuple):
        return ", ".join(map(_value, value))
    if isinstance(value, Declared):
        return text_of(value)
    if isinstance(value, Enum):
        return str(value.value)
    return str(getattr(value, "name", value))


def _by_fields(value: Declared) -> str:
    """The name of a class that has no words, and its fields but for those that are indices."""
    declared = value.form.declared
    indices = {each.index for _, each in declared if isinstance(each, Memory)}
    told = (
        f"{name} {_field(value, name, found)}"
        for name, each in declared
        if name not in indices and name != "number" and not isinstance(each, Body)
        if _is_told(value, name, found := getattr(value, name))
    )
    return ", ".join([type(value).__name__, *told])
