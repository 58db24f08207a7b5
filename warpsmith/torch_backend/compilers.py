"""What AOTAutograd calls for one graph of dynamo's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import SerializableAOTDispatchCompiler
from torch.fx import GraphModule

from warpsmith.torch_backend.complexes import compute_parts
from warpsmith.torch_backend.constants import fold_constants, fold_tables
from warpsmith.torch_backend.decompositions import decompositions
from warpsmith.torch_backend.definition import tensors_of
from warpsmith.torch_backend.embeddings import join_embeddings, sum_embeddings
from warpsmith.torch_backend.few_put import put_by_choice
from warpsmith.torch_backend.graph import compile_graph
from warpsmith.torch_backend.image_layout import lay_out
from warpsmith.torch_backend.joins import stack_parts
from warpsmith.torch_backend.joint import partition
from warpsmith.torch_backend.kept import Kept, Made, keeping, keeps, why_not
from warpsmith.torch_backend.options import Options
from warpsmith.torch_backend.parted import keep_parts
from warpsmith.torch_backend.report import Start, account_of
from warpsmith.torch_backend.rows_added import add_rows_in_order
from warpsmith.torch_backend.scalars import keep_apart
from warpsmith.torch_backend.sorts import sort_in_few_bits
from warpsmith.torch_backend.source import Boxed
from warpsmith.torch_backend.stored import NotStored
from warpsmith.torch_backend.undefined import (
    Places,
    gradients_of,
    leave_undefined,
    let_be_undefined,
    likely,
    may_be_undefined,
    without,
)
from warpsmith.torch_backend.writes import write_in_place


class Compilers:
    """Those of forward, backward and inference, which compile as the options say."""

    def __init__(self, options: Options, start: Start) -> None:
        self._options = options
        self._start = start
        self._undefined = False
        self._keeps = keeps(options)

    def compiled(self, module: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """What runs a graph of dynamo's: read from disk, or compiled, and then kept there."""
        if self._keeps:
            self._start.not_kept = why_not(self._options, module, inputs)
            self._keeps = not self._start.not_kept
        if not self._keeps:
            made = self._traced(module, inputs)
        else:
            with keeping(self._options, self._start) as loaded:
                made = self._traced(module, inputs)
            self._undefined |= any(each.gradients for each in loaded)
        return leave_undefined(made) if self._undefined else made

    def _traced(self, module: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        names = {"fw_compiler": "forward", "bw_compiler": "backward"}
        names["inference_compiler"] = "inference"
        compilers: dict[str, Any] = {key: partial(self._made, what) for key, what in names.items()}
        if self._keeps:
            for key, each in compilers.items():
                compilers[key] = SerializableAOTDispatchCompiler(Kept, each)
        made: Callable[..., Any] = aot_autograd(
            partition_fn=self._divided,
            decompositions=dict(decompositions()),
            keep_inference_input_mutations=True,
            **compilers,
        )(module, inputs)
        return made

    def _divided(
        self, joint: GraphModule, inputs: Any, **told: Any
    ) -> tuple[GraphModule, GraphModule]:
        self._undefined = may_be_undefined(joint.graph) and not self._options.cuda_graphs
        forward, backward = partition(joint, inputs, **told)
        if self._undefined:
            let_be_undefined(backward)
        return forward, backward

    def _made(self, what: str, module: GraphModule, inputs: Sequence[Any]) -> Kept | Boxed:
        """What runs one of AOTAutograd's graphs."""
        backward = what == "backward" and self._undefined
        gradients = gradients_of(module.graph) if backward else {}

        def compiled(missing: Places) -> Made:
            given = without(module, inputs, missing) if gradients else (module, inputs)
            return _compiled(what, self._options, *given)

        sets = likely(gradients) if self._keeps else ()
        known = {missing: compiled(missing) for missing in sets}
        made = Kept(known, gradients, compiled)
        run = made.begin(self._start)
        if not self._keeps:
            return run
        try:
            made.write()
        except NotStored as failure:
            self._start.not_kept = f"{what}: {failure}"
        return made


def _compiled(
    what: str, options: Options, module: GraphModule, example_inputs: Sequence[Any]
) -> Made:
    """One of AOTAutograd's graphs, compiled."""
    knobs = options.knobs
    devices = {t.device.type for node in module.graph.nodes for t in tensors_of(node)}
    if knobs.device == "auto" and devices == {"cpu"}:  # the simulator would take too long
        knobs = knobs.replace(device="reference")
    if what == "inference":  # else forward and backward have agreed
        lay_out(module.graph)
    fold_constants(module)
    fold_tables(module)
    write_in_place(module.graph)
    keep_apart(module.graph)
    sort_in_few_bits(module.graph)
    compute_parts(module.graph)
    put_by_choice(module.graph)
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
    recording: Any = None
    if options.cuda_graphs:
        from warpsmith.torch_backend.cuda_graphs import Recording  # it imports much of Inductor

        recording = Recording.of(module, example_inputs, what)
    return Made(made.source, account_of(what, made.regions, made.programs), recording)
