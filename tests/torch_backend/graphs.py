"""Functions as graphs of torch's operators, compiled as AOTAutograd's graphs are."""

from collections.abc import Callable
from typing import Any

from torch.fx.experimental.proxy_tensor import make_fx

from warpsmith import knobs
from warpsmith.torch_backend.decompositions import decompositions
from warpsmith.torch_backend.graph import Compiled, compile_graph
from warpsmith.torch_backend.parted import keep_parts
from warpsmith.torch_backend.writes import write_in_place


def compiled(function: Callable[..., Any], *inputs: Any, device: str = "reference") -> Compiled:
    """A function that returns a list, for such inputs."""
    module = make_fx(function, decomposition_table=dict(decompositions()), tracing_mode="fake")(
        *inputs
    )
    write_in_place(module.graph)
    keep_parts(module.graph)
    chosen = knobs.current().replace(device=device)
    return compile_graph(module, chosen, precision="exact", products=True)
