"""Complex numbers as two real ones each, which kernels compute."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

import torch
from torch.fx import Graph, Node

from warpsmith.torch_backend.changes import call
from warpsmith.torch_backend.definition import value_of
from warpsmith.values import dataclass

aten = torch.ops.aten

_Pair = tuple[Node, Node]
"""Real and imaginary parts."""

_REAL = {torch.complex64: torch.float32, torch.complex128: torch.float64}

_ALONG = {
    aten.alias.default,
    aten.clone.default,
    aten.copy.default,
    aten.expand.default,
    aten.mean.dim,
    aten.mul.Scalar,
    aten.neg.default,
    aten.permute.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.slice_scatter.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.sum.dim_IntList,
    aten.transpose.int,
    aten.unsqueeze.default,
    aten.view.default,
    aten.where.self,
}
"""Operations that do the same to both parts, whose other operands are real."""

_LAZY = {
    aten._conj.default,
    aten.alias.default,
    aten.expand.default,
    aten.permute.default,
    aten.select.int,
    aten.slice.Tensor,
    aten.squeeze.dim,
    aten.squeeze.dims,
    aten.transpose.int,
    aten.unsqueeze.default,
    aten.view.default,
}
"""Operations that move nothing: alone they are no reason to have two parts."""


def compute_parts(graph: Graph) -> None:
    """Let kernels compute products, sums and other simple functions of complex numbers, by parts.

        before  view_as_real(view_as_complex(x) * y)
        after   a, b, c, d = x[..., 0], x[..., 1], real(y), imag(y)
                stack([a * c - b * d, a * d + b * c], -1)

    The graph is AOTAutograd's, and changed in place. What is complex for operations that are not
    among these, as transforms, lies in memory as pairs, which is what torch calls complex.
    """
    parts = _Parts(graph)
    for node in list(graph.nodes):
        if node.op == "call_function" and _is_complex(node) and node.target not in _LAZY:
            parts.try_pair(node)
        elif node.target is aten.abs.default and _is_complex(node.args[0]):
            _put_length(parts, node)
    parts.replace()


def _is_complex(node: object) -> bool:
    value = value_of(node) if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dtype in _REAL


@dataclass(frozen=True, slots=True)
class _Parts:
    """Both parts of the complex nodes of a graph, `made` of others', or `read` of memory."""

    graph: Graph
    made: dict[Node, _Pair] = field(default_factory=dict)
    read: dict[Node, _Pair] = field(default_factory=dict)

    def try_pair(self, node: Node) -> _Pair | None:
        """Both parts of what an operation that is known computes; None of any other."""
        make = _MADE.get(node.target, _both if node.target in _ALONG else None)
        fits = make is not None and all(_fits(each, node) for each in node.all_input_nodes)
        if node in self.made or node in self.read or not fits or not _is_plain(node):
            return self.made.get(node)
        assert make is not None
        with self.graph.inserting_before(node):
            made = make(self, node)
        if made is not None:
            self.made[node] = made
        return made

    def of(self, node: Node) -> _Pair:
        """Both parts of what is complex, in memory where nothing else is known."""
        if known := self.made.get(node) or self.read.get(node):
            return known
        if node.target in _LAZY and (found := self.try_pair(node)) is not None:
            return found
        behind = node.next
        while behind.op in ("placeholder", "get_attr"):
            behind = behind.next
        with self.graph.inserting_before(behind):
            pairs = call(self.graph, aten.view_as_real.default, node)
            real, imaginary = (call(self.graph, aten.select.int, pairs, -1, k) for k in range(2))
        self.read[node] = real, imaginary
        return real, imaginary

    def replace(self) -> None:
        """Let what reads complex nodes read their parts, or pairs that are made of these."""
        gone = set[Node]()
        for node, (real, imaginary) in reversed(self.made.items()):
            users = [user for user in node.users if user not in gone]
            if users and node.target in _LAZY and node.target is not aten._conj.default:
                continue  # as it is, of what it is a view of
            gone.add(node)
            if not users:
                continue
            with self.graph.inserting_before(node):
                last = [call(self.graph, aten.unsqueeze.default, x, -1) for x in (real, imaginary)]
                pairs = call(self.graph, aten.cat.default, last, -1)
                whole = call(self.graph, aten.view_as_complex.default, pairs)
            for user in users:
                if user.target is aten.view_as_real.default:
                    user.replace_all_uses_with(pairs)
                    self.graph.erase_node(user)
                else:
                    user.replace_input_with(node, whole)
            if not whole.users:
                self.graph.erase_node(whole)
        for node in [node for node in reversed(self.graph.nodes) if node in gone]:
            self.graph.erase_node(node)

    def ask(self, function: Any, *args: Any) -> Node:
        return call(self.graph, function, *args)


def _fits(operand: Node, result: Node) -> bool:
    """Whether an operand is complex or real, in no more bits than the result."""
    value, kind = value_of(operand), value_of(result).dtype
    if not isinstance(value, torch.Tensor):
        return False
    if not _is_read(operand):
        return False
    real = _REAL[kind]
    return value.dtype in (kind, real) or torch.promote_types(value.dtype, real) is real


def _is_read(operand: Node) -> bool:
    """Whether memory has an operand as it is, or its parts are known."""
    return not value_of(operand).is_conj() or operand.target is aten._conj.default


def _is_plain(node: Node) -> bool:
    """Whether what torch reads of a node may be a new tensor without gaps, and what computes it is
    given numbers that are real.
    """
    inside = all(user.target in {*_MADE, *_ALONG, aten.view_as_real.default} for user in node.users)
    scalars = (each for each in (*node.args, *node.kwargs.values()))
    return (inside or value_of(node).is_contiguous()) and not any(
        isinstance(each, complex) for each in scalars
    )


def _both(parts: _Parts, node: Node) -> _Pair | None:
    """What does the same to both parts."""
    rank = max((value_of(each).dim() for each in node.all_input_nodes), default=0)
    if node.target is aten.where.self and not all(map(_is_complex, node.args[1:])):
        return None
    complexes = [each for each in node.all_input_nodes if _is_complex(each)]
    if not complexes or (rank == 0 and node.target is aten.view.default):
        return None
    known = {each: parts.of(each) for each in complexes}
    kwargs = {
        name: each for name, each in node.kwargs.items() if name not in ("dtype", "memory_format")
    }
    if node.kwargs.get("dtype") not in (None, value_of(node).dtype):
        return None

    def one(which: int) -> Node:
        def instead(each: Any) -> Any:
            return known[each][which] if isinstance(each, Node) and each in known else each

        return call(parts.graph, node.target, *map(instead, node.args), **kwargs)

    return one(0), one(1)


def _product(parts: _Parts, node: Node) -> _Pair | None:
    x, y = node.args
    if not (isinstance(x, Node) and isinstance(y, Node)):
        tensor, number = (x, y) if isinstance(x, Node) else (y, x)
        a, b = parts.of(tensor)
        return parts.ask(aten.mul.Tensor, a, number), parts.ask(aten.mul.Tensor, b, number)
    if not (_is_complex(x) and _is_complex(y)):
        whole, real = (x, y) if _is_complex(x) else (y, x)
        a, b = (parts.ask(aten.mul.Tensor, each, real) for each in parts.of(whole))
        return a, b
    (a, b), (c, d) = parts.of(x), parts.of(y)
    ac, bd, ad, bc = (
        parts.ask(aten.mul.Tensor, *pair) for pair in ((a, c), (b, d), (a, d), (b, c))
    )
    return parts.ask(aten.sub.Tensor, ac, bd), parts.ask(aten.add.Tensor, ad, bc)


def _quotient(parts: _Parts, node: Node) -> _Pair | None:
    x, y = node.args
    if not _is_complex(x) or _is_complex(y):
        return None
    a, b = (parts.ask(aten.div.Tensor, each, y) for each in parts.of(x))
    return a, b


def _sum(parts: _Parts, node: Node) -> _Pair | None:
    if len(node.args) != 2 or node.kwargs or not all(map(_is_complex, node.args)):
        return None
    pairs = zip(*map(parts.of, node.args), strict=True)
    a, b = (parts.ask(node.target, *pair) for pair in pairs)
    return a, b


def _conjugate(parts: _Parts, node: Node) -> _Pair | None:
    real, imaginary = parts.of(node.args[0])
    return real, parts.ask(aten.neg.default, imaginary)


def _put_length(parts: _Parts, node: Node) -> None:
    """Put what computes a length in place of a node, by parts whose squares are numbers."""
    if not _is_read(node.args[0]):
        return
    with parts.graph.inserting_before(node):
        sides = [parts.ask(aten.abs.default, part) for part in parts.of(node.args[0])]
        long, short = (
            parts.ask(each, *sides) for each in (aten.maximum.default, aten.minimum.default)
        )
        share = parts.ask(aten.div.Tensor, short, long)
        square = parts.ask(aten.add.Scalar, parts.ask(aten.mul.Tensor, share, share), 1)
        length = parts.ask(aten.mul.Tensor, long, parts.ask(aten.sqrt.default, square))
        ends = (parts.ask(aten.eq.Scalar, long, end) for end in (0, float("inf")))
        alone = parts.ask(aten.logical_or.default, *ends)  # there a share is no number
        length = parts.ask(aten.where.self, alone, long, length)
    node.replace_all_uses_with(length)
    parts.graph.erase_node(node)


def _of_pairs(parts: _Parts, node: Node) -> _Pair | None:
    a, b = (parts.ask(aten.select.int, node.args[0], -1, k) for k in range(2))
    return a, b


def _polar(parts: _Parts, node: Node) -> _Pair | None:
    length, angle = node.args
    a, b = (
        parts.ask(aten.mul.Tensor, length, parts.ask(each, angle))
        for each in (aten.cos.default, aten.sin.default)
    )
    return a, b


def _filled(parts: _Parts, node: Node) -> _Pair | None:
    size, number = node.args
    if isinstance(number, complex):
        return None
    told = {**node.kwargs, "dtype": _REAL[value_of(node).dtype]}
    real = call(parts.graph, aten.full.default, size, number, **told)
    return real, call(parts.graph, aten.full.default, size, 0, **told)


def _number(parts: _Parts, node: Node) -> _Pair | None:
    (number,) = node.args
    if isinstance(number, complex):
        return None
    told = {**node.kwargs, "dtype": _REAL[value_of(node).dtype]}
    real = call(parts.graph, aten.scalar_tensor.default, number, **told)
    return real, call(parts.graph, aten.scalar_tensor.default, 0, **told)


_MADE: dict[Any, Callable[[_Parts, Node], _Pair | None]] = {
    aten.mul.Tensor: _product,
    aten.div.Tensor: _quotient,
    aten.add.Tensor: _sum,
    aten.sub.Tensor: _sum,
    aten._conj.default: _conjugate,
    aten.view_as_complex.default: _of_pairs,
    aten.complex.default: lambda parts, node: (node.args[0], node.args[1]),
    aten.polar.default: _polar,
    aten.full.default: _filled,
    aten.scalar_tensor.default: _number,
}
