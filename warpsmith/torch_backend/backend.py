"""`torch.compile(model, backend="warpsmith")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.fx import GraphModule

from warpsmith.torch_backend.attention import lay_dense, take_few_rows
from warpsmith.torch_backend.compilers import Compilers
from warpsmith.torch_backend.options import read_options
from warpsmith.torch_backend.report import Start, parameters_of


def backend(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Compile a graph of dynamo's: what warpsmith takes becomes fusions, torch runs the rest.

    Args:
        mode, options: as `options.read_options` knows them.
    """
    chosen = read_options(mode, options)
    take_few_rows(module)
    lay_dense(module)
    start = Start(parameters_of(module.graph.find_nodes(op="placeholder")))
    return Compilers(chosen, start).compiled(module, example_inputs)
