"""What a max pool saves for its gradient: in a byte, which element of its window each one is."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, Node

from warpsmith.torch_backend.changes import call, given
from warpsmith.torch_backend.pools import MOST_READ
from warpsmith.torch_backend.windows import several

aten = torch.ops.aten

_POOLS = {2: aten.max_pool2d_with_indices.default, 3: aten.max_pool3d_with_indices.default}
_GRADIENTS = {
    2: aten.max_pool2d_with_indices_backward.default,
    3: aten.max_pool3d_with_indices_backward.default,
}
"""Torch's, by dimensions of an image."""

Sizes = list[int]


def _max_pool(
    x: Tensor, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil_mode: bool
) -> tuple[Tensor, Tensor]:
    """The largest element of each window, and its number there."""
    largest, places = _POOLS[len(kernel)](x, kernel, stride, padding, dilation, ceil_mode)
    numbers, beside = torch.zeros_like(places), 1
    for k in reversed(range(len(kernel))):
        size = x.shape[k - len(kernel)]
        first = _firsts(places, k, len(kernel), stride, padding)
        inside = (-first).clamp(min=0).add(dilation[k] - 1) // dilation[k]
        number = (places % size - first) // dilation[k]
        numbers += number.clamp(min=inside) * beside  # torch gives -inf alone place 0 on a GPU
        places, beside = places // size, beside * kernel[k]
    return largest, numbers.to(torch.int8)


def _max_pool_shapes(x: Tensor, kernel: Sizes, *how: Any) -> tuple[Tensor, Tensor]:
    largest, places = _POOLS[len(kernel)](x, kernel, *how)
    return largest, torch.empty_like(places, dtype=torch.int8)


def _gradient(
    dy: Tensor,
    numbers: Tensor,
    size: Sizes,
    kernel: Sizes,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    ceil_mode: bool,
    channels_last: bool,
) -> Tensor:
    """What each pixel of an image of a size gets of the windows that chose it."""
    dims, rest = len(size), numbers.long()
    places = torch.zeros_like(rest)
    for k in reversed(range(dims)):
        first = _firsts(rest, k, dims, stride, padding)
        places += (first + rest % kernel[k] * dilation[k]) * prod(size[k + 1 :])
        rest = rest // kernel[k]
    x = _gradient_shape(dy, numbers, size, channels_last)
    found: Tensor = _GRADIENTS[dims](dy, x, kernel, stride, padding, dilation, ceil_mode, places)
    return found


def _gradient_shape(dy: Tensor, numbers: Tensor, size: Sizes, *how: Any) -> Tensor:
    *_, channels_last = how
    found = dy.new_empty((*dy.shape[: -len(size)], *size))
    return found.contiguous(memory_format=_LAST[len(size)]) if channels_last else found


_LAST = {2: torch.channels_last, 3: torch.channels_last_3d}


def _firsts(
    places: Tensor, k: int, dims: int, stride: Sequence[int], padding: Sequence[int]
) -> Tensor:
    """Where windows begin along a dimension, beside places of each."""
    counted = torch.arange(places.shape[k - dims], device=places.device)
    return (counted * stride[k] - padding[k]).view(-1, *(1,) * (dims - 1 - k))


max_pool_in_windows = torch.library.custom_op(
    "warpsmith::max_pool_in_windows", _max_pool, mutates_args=()
)
max_pool_in_windows.register_fake(_max_pool_shapes)
max_pool_in_windows_gradient = torch.library.custom_op(
    "warpsmith::max_pool_in_windows_gradient", _gradient, mutates_args=()
)
max_pool_in_windows_gradient.register_fake(_gradient_shape)


def save_in_windows(graph: Graph) -> None:
    """Let max pools save for their gradients a byte of each window, in place of a whole number and
    of what the pool read.

    The graph is AOTAutograd's, of forward and backward, and changed in place:

        before  y, places = max_pool2d_with_indices(x, ...)
                dx = max_pool2d_with_indices_backward(dy, x, ..., places)
        after   y, numbers = max_pool_in_windows(x, ...)
                dx = max_pool_in_windows_gradient(dy, numbers, size of x, ...)
    """
    for dims, target in _POOLS.items():
        for pool in graph.find_nodes(op="call_function", target=target):
            gradients = _gradients(pool, dims)
            how = _said(pool, dims)
            if gradients and how is not None:
                _replace(graph, pool, gradients, how)


def _gradients(pool: Node, dims: int) -> list[Node]:
    """Those that its places are for; none where anything else reads them."""
    places = [user for user in pool.users if user.args[1:] == (1,)]
    readers = [reader for each in places for reader in each.users]
    if any(user.target is not operator.getitem for user in pool.users):
        return []
    if any(reader.target is not _GRADIENTS[dims] for reader in readers):
        return []
    if any(reader.args[1] is not pool.args[0] or reader.args[0] in places for reader in readers):
        return []
    return [] if any("recompute" in node.meta for node in (pool, *readers)) else readers


def _said(pool: Node, dims: int) -> tuple[Sizes, Sizes, Sizes, Sizes, bool] | None:
    """The windows of a pool, a number for each dimension; None where kernels do not take it."""
    named = given(pool)
    kernel = several(named["kernel_size"], dims)
    stride = several(named.get("stride") or kernel, dims)
    padding = several(named.get("padding", 0), dims)
    dilation = several(named.get("dilation", 1), dims)
    x = pool.args[0].meta["val"]
    numbers = (*x.shape[-dims:], *kernel, *stride, *padding, *dilation)
    if not all(type(number) is int for number in numbers) or not x.dtype.is_floating_point:
        return None
    windows = zip(kernel, stride, dilation, strict=True)
    reach = prod(-(-((k - 1) * d + 1) // s) for k, s, d in windows)
    if max(reach, prod(kernel)) > MOST_READ:
        return None
    return kernel, stride, padding, dilation, bool(named.get("ceil_mode", False))


def _replace(graph: Graph, pool: Node, gradients: Sequence[Node], how: tuple[Any, ...]) -> None:
    dims = len(how[0])
    with graph.inserting_before(pool):
        both = call(graph, torch.ops.warpsmith.max_pool_in_windows.default, pool.args[0], *how)
        largest, numbers = (call(graph, operator.getitem, both, k) for k in range(2))
    for node in gradients:
        x = node.meta["val"]
        last = x.is_contiguous(memory_format=_LAST[dims]) and not x.is_contiguous()
        with graph.inserting_before(node):
            found = call(
                graph,
                torch.ops.warpsmith.max_pool_in_windows_gradient.default,
                *(node.args[0], numbers, [*x.shape[-dims:]], *how, last),
            )
        node.replace_all_uses_with(found)
        graph.erase_node(node)
    for part in [*pool.users]:
        if part.args[1] == 0:
            part.replace_all_uses_with(largest)
        graph.erase_node(part)
    graph.erase_node(pool)
