"""A function in Python that runs the steps of a graph one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from torch.fx import Node

from warpsmith.values import dataclass

Boxed = Callable[[list[Any]], tuple[Any, ...]]
"""A function that takes its arguments out of a list, so that none lives longer than it is used."""


@dataclass(frozen=True, slots=True)
class Step:
    """A call in a graph.

    Attributes:
        results: the nodes whose values it gives: one for `single`, else those of a list.
        args, kwargs: values in which nodes stand for theirs.
        single: it gives one value; one that gives a list is called with a list of its arguments,
            `args`, out of which it takes what it is done with.
        beside: what else it computes and writes, and nobody reads as a result.
    """

    results: tuple[Node, ...]
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    single: bool = True
    beside: tuple[Node, ...] = ()

    @staticmethod
    def of(node: Node) -> Step:
        """What torch itself runs for a node."""
        assert callable(node.target)
        return Step((node,), node.target, node.args, dict(node.kwargs))

    def reads(self) -> Iterable[Node]:
        return _nodes((self.args, self.kwargs))


@dataclass(frozen=True, slots=True)
class Source:
    """A function as text.

    Attributes:
        text: of `run(args)`.
        constants: what it cannot spell, by the names that it reads.
    """

    text: str
    constants: Mapping[str, Any]

    def function(self) -> Boxed:
        """The function."""
        names = dict(self.constants)
        exec(compile(self.text, "<warpsmith torch.compile>", "exec"), names)
        found: Boxed = names["run"]
        found._boxed_call = True  # type: ignore[attr-defined]  # what AOTAutograd looks for
        return found


def source_of(
    inputs: Sequence[Node],
    constants: dict[Node, Any],
    steps: Sequence[Step],
    results: Sequence[Any],
) -> Source:
    """The function from the values of the inputs to those of the results.

    Args:
        constants: values of nodes that are the same in every call.
        results: nodes, and values such as None that are results as they are.
    """
    text = _Text(inputs, constants)
    last = {node: number for number, step in enumerate(steps) for node in step.reads()}
    kept = set(_nodes(tuple(results)))
    lines = [f"{', '.join(text.names[node] for node in inputs)}, = args"] if inputs else []
    lines.append("args.clear()")
    unused = [node for node in inputs if node not in last and node not in kept]
    lines += [f"{text.names[node]} = None" for node in unused]
    for number, step in enumerate(steps):
        read = [node for node in dict.fromkeys(step.reads()) if last[node] == number]
        read = [node for node in read if node not in kept and node not in constants]
        unread = [node for node in step.results if node not in last and node not in kept]
        call = text.call(step)
        names = [text.defined(node) for node in step.results]
        gone = [f"{text.names[node]} = None" for node in read]
        if step.single:
            lines += [f"{names[0]} = {call}", *gone]
        else:
            box = text.value(list(step.args))
            lines += [f"box = {box}", *gone, f"[{', '.join(names)}] = {call}", "box = None"]
        lines += [f"{text.names[node]} = None" for node in unread]
    lines.append(f"return ({''.join(f'{text.value(each)}, ' for each in results)})")
    program = "def run(args):\n" + "".join(f"    {line}\n" for line in lines)
    return Source(program, text.globals)


class _Text:
    """Names of the values of a function, and values that its text cannot spell."""

    def __init__(self, inputs: Sequence[Node], constants: dict[Node, Any]) -> None:
        self.globals: dict[str, Any] = {}
        self.names = {node: f"v{number}" for number, node in enumerate(inputs)}
        for node, value in constants.items():
            self.names[node] = self._constant(value)

    def defined(self, node: Node) -> str:
        return self.names.setdefault(node, f"v{len(self.names)}")

    def call(self, step: Step) -> str:
        if not step.single:
            return f"{self._constant(step.function)}(box)"
        arguments = [self.value(each) for each in step.args]
        arguments += [f"{name}={self.value(each)}" for name, each in step.kwargs.items()]
        return f"{self._constant(step.function)}({', '.join(arguments)})"

    def value(self, value: Any) -> str:
        if isinstance(value, Node):
            return self.names[value]
        if value is None or type(value) in (bool, int, str):
            return repr(value)
        if type(value) is float and math.isfinite(value):
            return repr(value)
        if isinstance(value, tuple):
            return f"({''.join(f'{self.value(each)}, ' for each in value)})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.value, value))}]"
        if isinstance(value, slice):
            parts = map(self.value, (value.start, value.stop, value.step))
            return f"slice({', '.join(parts)})"
        if isinstance(value, dict):
            entries = (f"{key!r}: {self.value(each)}" for key, each in value.items())
            return f"{{{', '.join(entries)}}}"
        return self._constant(value)

    def _constant(self, value: Any) -> str:
        name = f"c{len(self.globals)}"
        self.globals[name] = value
        return name


def _nodes(value: Any) -> Iterable[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple | list):
        for each in value:
            yield from _nodes(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _nodes(each)
    elif isinstance(value, slice):
        yield from _nodes((value.start, value.stop, value.step))
