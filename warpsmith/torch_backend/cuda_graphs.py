"""Graphs whose calls are recorded once as CUDA graphs, and replayed: `mode="reduce-overhead"`.

Torch's trees of CUDA graphs do all of it: they warm up, record for each new size, keep memory, and
copy inputs that move. What they cannot record, as work on the CPU, runs as it is, and so does what
writes into inputs other than parameters, buffers and what they made themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch._dynamo.backends.cudagraphs import (
    find_input_mutations,
    get_device_index,
    get_device_node_mapping,
    get_stack_traces,
)
from torch._guards import TracingContext
from torch._inductor.cudagraph_trees import cudagraphify_impl, get_manager
from torch._inductor.cudagraph_utils import (
    check_multiple_devices_or_any_cpu_nodes,
    get_placeholder_info,
)
from torch._inductor.utils import count_tangents, get_first_incompatible_cudagraph_node
from torch.fx import GraphModule

from warpsmith.torch_backend.source import Boxed


def recorded(run: Boxed, module: GraphModule, inputs: Sequence[Any], what: str) -> Boxed:
    """What runs a graph, as it is called with CUDA graphs.

    Args:
        what: `inference`, `forward` or `backward`.
    """
    backward = what == "backward"
    fixed = list(range(count_tangents(module))) if backward else _parameters()
    devices = get_device_node_mapping(module)
    if check_multiple_devices_or_any_cpu_nodes(devices) or get_first_incompatible_cudagraph_node(
        module
    ):
        return (
            _told(run, [each.index for each in devices if each.type == "cuda"]) if backward else run
        )
    made: Boxed = cudagraphify_impl(
        run,
        list(inputs),
        fixed,
        device_index=get_device_index(module),
        is_backward=backward,
        is_inference=what == "inference",
        stack_traces=get_stack_traces(module),
        placeholders=get_placeholder_info(module.graph),
        mutated_input_idxs=find_input_mutations(module.graph),
    )
    made._boxed_call = True  # type: ignore[attr-defined]  # what AOTAutograd looks for
    return made


def _parameters() -> list[int]:
    """The inputs that stay where they are from call to call."""
    context = TracingContext.try_get()
    if context is None or context.fw_metadata is None:
        return []
    return list(context.fw_metadata.static_input_indices)


def _told(run: Boxed, ordinals: Sequence[int]) -> Boxed:
    """A backward graph that is not recorded: its forward one may be, and waits for it.

    Args:
        ordinals: the GPUs that it runs on.
    """

    def told(args: list[Any]) -> tuple[Any, ...]:
        for ordinal in ordinals:
            manager = get_manager(ordinal, create_if_none_exists=False)
            if manager is not None:
                manager.set_to_running_backward()
        return run(args)

    told._boxed_call = True  # type: ignore[attr-defined]  # what AOTAutograd looks for
    return told if ordinals else run
