"""A small Llama trained on several ranks of `torchrun`: losses of its steps, one line a way.

`torchrun --nproc-per-node 2 -m tests.support.ranks STEPS WAY...`, where a way is a kind of
parallelism (ddp, fsdp, tensor) and a door (eager, compiled, modules), as `fsdp-compiled`. Ranks
have GPUs where there are as many, else they are processes of the CPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    ParallelStyle,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import warpsmith.nn
from bench.small_models import TINY, Llama
from warpsmith.torch_backend.backend import backend


class Trained(NamedTuple):
    """On which kind of device, and the mean loss of each step."""

    device: str
    losses: list[float]


def trained(steps: int, *ways: str) -> dict[str, Trained]:
    """What two ranks found for each way, and for the model alone, `eager`."""
    launch = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    root = Path(__file__).parents[2]
    done = subprocess.run(
        (*launch, "-m", "tests.support.ranks", str(steps), *ways),
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {each["way"]: Trained(each["device"], each["losses"]) for each in found}


def spread(kind: str, model: nn.Module, mesh: DeviceMesh) -> nn.Module:
    """The model on all ranks, as that kind of parallelism has it."""
    if kind == "ddp":
        return DistributedDataParallel(model)
    if kind == "fsdp":
        for block in model.blocks:
            fully_shard(block, mesh=mesh)
        return fully_shard(model, mesh=mesh)
    split, part = Shard(1), ColwiseParallel(input_layouts=Shard(1))
    whole = ColwiseParallel(input_layouts=split, output_layouts=Replicate())
    plan: dict[str, ParallelStyle] = {
        "embedded": RowwiseParallel(
            input_layouts=Replicate(), output_layouts=split, use_local_output=False
        ),
        "blocks.*.first": SequenceParallel(),
        "blocks.*.qkv": whole,
        "blocks.*.out": RowwiseParallel(
            input_layouts=Replicate(), output_layouts=split, use_local_output=False
        ),
        "blocks.*.second": SequenceParallel(),
        "blocks.*.gate": part,
        "blocks.*.up": part,
        "blocks.*.down": RowwiseParallel(output_layouts=split, use_local_output=False),
        "norm": SequenceParallel(),
        "logits": whole,
    }
    return parallelize_module(model, mesh, plan)


def losses(way: str, steps: int, device: torch.device) -> list[float]:
    """Of each step, the mean over all words of all ranks."""
    kind, door = way.split("-") if "-" in way else ("one", way)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch._dynamo.reset()
    torch.manual_seed(0)
    model: Any = Llama(TINY)
    if door == "modules":
        for block in model.blocks:
            block.first, block.second = (warpsmith.nn.RMSNorm(TINY.width) for _ in range(2))
        model.norm = warpsmith.nn.RMSNorm(TINY.width)
    model = model.to(device)
    words = torch.randint(0, TINY.words, (steps, 2 * ranks, TINY.length))
    if kind in ("ddp", "fsdp"):
        words = words[:, 2 * rank : 2 * rank + 2]
    if kind != "one":
        model = spread(kind, model, init_device_mesh(device.type, (ranks,)))
    run = torch.compile(model, backend=backend) if door == "compiled" else model
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    found = []
    for given in words:
        loss: Tensor = run(given.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        dist.all_reduce(total)
        found.append(total.item() / ranks)
    return found


def main() -> None:
    """Trains each way that is named, and the model alone first."""
    many = torch.cuda.device_count() > 1
    dist.init_process_group("nccl" if many else "gloo")
    device = torch.device("cuda", dist.get_rank()) if many else torch.device("cpu")
    if many:
        torch.cuda.set_device(device)
    steps, *ways = sys.argv[1:]
    for way in ("eager", *ways):
        found = losses(way, int(steps), device)
        if dist.get_rank() == 0:
            print(json.dumps({"way": way, "device": device.type, "losses": found}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
