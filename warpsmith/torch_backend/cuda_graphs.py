"""Graphs whose calls are recorded once as CUDA graphs, and replayed: `mode="reduce-overhead"`.

Torch's trees of CUDA graphs do all of it: they warm up, record for each new size, keep memory, and
copy inputs that move. What they cannot record, as work on the CPU, runs as it is, and so does what
writes into inputs other than parameters, buffers and what they made themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
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
from warpsmith.values import dataclass


@dataclass(frozen=True, slots=True)
class Recording:
    """What is to be known of a graph to record its calls.

    Attributes:
        what: `inference`, `forward` or `backward`.
        device: the one that all of it is on; None where calls are not recorded.
        ordinals: the GPUs that it runs on where they are not.
        numbers: which of its inputs are numbers; calls with others are other recordings.
        fixed: which of its inputs stay where they are from call to call.
        lines: the model's, by torch's account, of each result.
        inputs: what torch says of its inputs in warnings.
        written: which of its inputs it writes into.
    """

    what: str
    device: int | None
    ordinals: tuple[int, ...] = ()
    numbers: tuple[bool, ...] = ()
    fixed: tuple[int, ...] = ()
    lines: tuple[str | None, ...] = ()
    inputs: tuple[Any, ...] = ()
    written: tuple[int, ...] = ()

    @classmethod
    def of(cls, module: GraphModule, inputs: Sequence[Any], what: str) -> Recording:
        """That of a graph of AOTAutograd's."""
        devices = get_device_node_mapping(module)
        if check_multiple_devices_or_any_cpu_nodes(
            devices
        ) or get_first_incompatible_cudagraph_node(module):
            return cls(what, None, tuple(each.index for each in devices if each.type == "cuda"))
        backward = what == "backward"
        return cls(
            what,
            get_device_index(module),
            (),
            tuple([isinstance(each, int | torch.SymInt) for each in inputs]),
            tuple(range(count_tangents(module)) if backward else _parameters()),
            tuple(get_stack_traces(module)),
            tuple(get_placeholder_info(module.graph)),
            tuple(find_input_mutations(module.graph)),
        )

    def recorded(self, run: Boxed) -> Boxed:
        """What runs the graph, as it is called with CUDA graphs."""
        backward = self.what == "backward"
        if self.device is None:
            return _told(run, self.ordinals) if backward else run
        made: Boxed = cudagraphify_impl(
            run,
            [0 if number else None for number in self.numbers],
            list(self.fixed),
            device_index=self.device,
            is_backward=backward,
            is_inference=self.what == "inference",
            stack_traces=list(self.lines),
            placeholders=list(self.inputs),
            mutated_input_idxs=list(self.written),
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
