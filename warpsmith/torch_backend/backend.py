"""`torch.compile(model, backend="warpsmith")`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from torch._dynamo.backends.common import aot_autograd
from torch.fx import GraphModule

from warpsmith.torch_backend.attention import lay_dense, take_few_rows
from warpsmith.torch_backend.constants import fold_constants
from warpsmith.torch_backend.decompositions import decompositions
from warpsmith.torch_backend.definition import tensors_of
from warpsmith.torch_backend.embeddings import join_embeddings, sum_embeddings
from warpsmith.torch_backend.graph import compile_graph
from warpsmith.torch_backend.image_layout import lay_out
from warpsmith.torch_backend.joins import stack_parts
from warpsmith.torch_backend.joint import partition
from warpsmith.torch_backend.options import Options, read_options
from warpsmith.torch_backend.parted import keep_parts
from warpsmith.torch_backend.report import Record, parameters_of, remember
from warpsmith.torch_backend.rows_added import add_rows_in_order
from warpsmith.torch_backend.scalars import keep_apart
from warpsmith.torch_backend.sorts import sort_in_few_bits
from warpsmith.torch_backend.source import Boxed
from warpsmith.torch_backend.undefined import (
    for_undefined,
    leave_undefined,
    let_be_undefined,
    may_be_undefined,
)
from warpsmith.torch_backend.writes import write_in_place


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
    parameters = parameters_of(module.graph.find_nodes(op="placeholder"))

    undefined = False

    def compiler(what: str) -> Callable[..., Any]:
        return partial(_compiled, what, chosen, parameters)

    def divided(joint: GraphModule, inputs: Any, **told: Any) -> tuple[GraphModule, GraphModule]:
        nonlocal undefined
        undefined = may_be_undefined(joint.graph) and not chosen.cuda_graphs
        forward, backward = partition(joint, inputs, **told)
        if undefined:
            let_be_undefined(backward)
        return forward, backward

    def backward(graph: GraphModule, inputs: Sequence[Any]) -> Any:
        compiled = compiler("backward")
        return for_undefined(compiled, graph, inputs) if undefined else compiled(graph, inputs)

    made: Callable[..., Any] = aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=backward,
        inference_compiler=compiler("inference"),
        partition_fn=divided,
        decompositions=dict(decompositions()),
        keep_inference_input_mutations=True,
    )(module, example_inputs)
    return leave_undefined(made) if undefined else made


def _compiled(
    what: str,
    options: Options,
    parameters: Any,
    module: GraphModule,
    example_inputs: Sequence[Any],
) -> Boxed:
    """What runs one of AOTAutograd's graphs."""
    knobs = options.knobs
    devices = {t.device.type for node in module.graph.nodes for t in tensors_of(node)}
    if knobs.device == "auto" and devices == {"cpu"}:  # the simulator would take too long
        knobs = knobs.replace(device="reference")
    if what == "inference":  # else forward and backward have agreed
        lay_out(module.graph)
    fold_constants(module)
    write_in_place(module.graph)
    keep_apart(module.graph)
    sort_in_few_bits(module.graph)
    add_rows_in_order(module.graph)
    join_embeddings(module.graph)
    sum_embeddings(module.graph)
    keep_parts(module.graph)
    stack_parts(module.graph)
    made = compile_graph(
        module,
        knobs,
        precision=options.precision,
        products=options.products,
        fallback=options.fallback,
    )
    run = made.run
    run.record = remember(  # type: ignore[attr-defined]  # it is to live as long as the function
        Record(what, made.regions, made.programs, parameters)
    )
    if not options.cuda_graphs:
        return run
    from warpsmith.torch_backend.cuda_graphs import recorded  # it imports much of Inductor

    return recorded(run, module, example_inputs, what)
