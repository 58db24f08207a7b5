"""Small networks of many kinds under `torch.compile`: warpsmith beside Inductor, sizes drawn.

`python -m bench.networks --seed 7 --json rows.json`

Losses and gradients are held against those of eager in float. A forward pass, and a step with its
gradients, are each recorded as a CUDA graph, so that nothing but kernels counts, and replayed in
turns. Parts of them, as `--part 2/7`, may run beside each other, and take turns on the GPU.

Attention of cuDNN is off: torch keeps the plan of its gradient for other strides than those that it
was made for, so that of two contenders in one process the second would be wrong.
"""

from __future__ import annotations

import argparse
import copy
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from statistics import geometric_mean, median
from typing import Any

import torch

from bench import image_networks as images
from bench import other_networks as others
from bench.measure import one_line, setting_here
from bench.models import distances
from bench.written import taking_turns
from warpsmith.errors import DeviceError
from warpsmith.torch_backend.backend import backend

ROUNDS, REPLAYS = 10, 3
"""Of each recorded pass: how often a turn comes, and replays of a turn."""

FURTHER = 4
"""Times as far from gradients in float as Inductor's: what is rounded otherwise is not."""


def _floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def _numbers(below: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, below, shape, device="cuda")


Inputs = Callable[[Callable[[int, int], int]], tuple[torch.Tensor, ...]]
"""Inputs of a network; what it is given draws a size between two."""


def _image(draw: Callable[[int, int], int]) -> tuple[torch.Tensor, ...]:
    return (_floats(draw(24, 48), 3, 224, 224),)


def _classified(draw: Callable[[int, int], int]) -> tuple[torch.Tensor, ...]:
    (image,) = _image(draw)
    return image, _numbers(1000, len(image))


def _noisy(draw: Callable[[int, int], int]) -> tuple[torch.Tensor, ...]:
    count = draw(6, 12)
    image = count, 4, 64, 64
    return _floats(*image), _numbers(1000, count), _floats(*image)


def _words(draw: Callable[[int, int], int]) -> tuple[torch.Tensor, ...]:
    return (_floats(draw(6, 12), draw(900, 2100), 768),)


def _rows(low: int, high: int, *shapes: Sequence[int]) -> Inputs:
    """Tensors of so many rows, of which each shape is one of floats; of whole numbers below the
    first one, where that is negative.
    """

    def made(draw: Callable[[int, int], int]) -> tuple[torch.Tensor, ...]:
        rows = draw(low, high)
        return tuple(
            _numbers(-shape[0], rows, *shape[1:])
            if shape and shape[0] < 0
            else _floats(rows, *shape)
            for shape in shapes
        )

    return made


def _edges(draw: Callable[[int, int], int]) -> tuple[torch.Tensor, ...]:
    nodes = draw(20000, 40000)
    return _floats(nodes, 128), _numbers(nodes, 8 * nodes), _numbers(nodes, 8 * nodes)


@dataclass(frozen=True, slots=True)
class Network:
    make: Callable[[], torch.nn.Module]
    inputs: Inputs
    channels_last: bool = False


NETWORKS: Mapping[str, Network] = {
    "resnet": Network(images.ResNet, _classified, channels_last=True),
    "resnet_nchw": Network(images.ResNet, _classified),
    "convnext": Network(images.ConvNeXt, _image, channels_last=True),
    "efficient": Network(images.EfficientNet, _rows(24, 48, (64, 56, 56)), channels_last=True),
    "unet": Network(images.UNet, _noisy, channels_last=True),
    "unet_nchw": Network(images.UNet, _noisy),
    "swin": Network(images.Swin, _rows(24, 48, (56, 56, 192))),
    "mixer": Network(images.Mixer, _rows(60, 140, (196, 512))),
    "dit": Network(images.DiT, _rows(24, 64, (256, 768), (768,))),
    "mamba": Network(others.Mamba, _words),
    "rwkv": Network(others.RWKV, _words),
    "lstm": Network(others.LSTM, _rows(100, 300, (16, 512))),
    "wave": Network(others.Wave, lambda draw: (_floats(draw(6, 12), 1, draw(80000, 160000)),)),
    "graph": Network(others.Graph, _edges),
    "clicks": Network(others.Clicks, _rows(3000, 9000, (13,), (-20000, 8), (-2,))),
    "experts": Network(others.Experts, _rows(3000, 6000, (512,))),
    "pairs": Network(others.Pairs, _rows(2000, 5000, (768,), (512,))),
    "latent": Network(others.Latent, _rows(3000, 9000, (784,), (64,))),
    "policy": Network(others.Policy, _rows(10000, 40000, (64,), (-12,), (), (), ())),
    "points": Network(others.Points, _rows(24, 48, (6, 2000), (-40,))),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A pass of a network, and the microseconds of both.

    Attributes:
        wrong: how far gradients are from those in float, as a share of the largest.
        furthest: the loss, or the parameter whose gradient of ours is the furthest.
    """

    name: str
    what: str
    shapes: tuple[tuple[int, ...], ...]
    us: Mapping[str, float]
    wrong: Mapping[str, float]
    furthest: str = ""

    @property
    def is_right(self) -> bool:
        """Whether our gradients are about as far from those in float as Inductor's."""
        return self.wrong["warpsmith"] < FURTHER * self.wrong["inductor"]

    @property
    def ratio(self) -> float:
        """Inductor's time over ours."""
        return self.us["inductor"] / self.us["warpsmith"]

    def __str__(self) -> str:
        times = ", ".join(f"{who} {us:.0f}" for who, us in self.us.items())
        wrong = ", ".join(f"{each:.1e}" for each in self.wrong.values())
        shape = "x".join(map(str, self.shapes[0]))
        said = "" if self.is_right else f", WRONG at {self.furthest}"
        what = f"{self.ratio:6.3f} {self.name} {self.what} [{shape}]"
        return f"{what}: {times} us, distance {wrong}{said}"


def _gradients(call: Any, model: torch.nn.Module, inputs: Sequence[torch.Tensor]) -> Any:
    model.zero_grad()
    loss = call(*inputs)
    loss.backward()
    return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def _recorded(run: Callable[[], object]) -> torch.cuda.CUDAGraph:
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            run()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        run()
    return graph


def _replayed(graphs: Mapping[str, torch.cuda.CUDAGraph]) -> dict[str, float]:
    times: dict[str, list[float]] = {who: [] for who in graphs}
    for _ in range(ROUNDS):
        for who, graph in graphs.items():
            first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            graph.replay()
            first.record()
            for _ in range(REPLAYS):
                graph.replay()
            last.record()
            last.synchronize()
            times[who].append(1e3 * first.elapsed_time(last) / REPLAYS)
    return {who: median(each) for who, each in times.items()}


def rows_of(name: str, seed: int) -> list[Row]:
    """The forward pass and the step of a network."""
    network, random = NETWORKS[name], Random(f"{seed} {name}")
    torch._dynamo.reset()
    torch.manual_seed(seed)
    model, inputs = network.make().cuda(), network.inputs(random.randint)
    wide = [x.float() if x.is_floating_point() else x for x in inputs]
    exact = _gradients(*(copy.deepcopy(model),) * 2, wide)
    model = model.bfloat16()
    if network.channels_last:
        model = model.to(memory_format=torch.channels_last)
        inputs = tuple(
            x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x for x in inputs
        )
    models = {who: copy.deepcopy(model) for who in ("inductor", "warpsmith")}
    how = {"inductor": "inductor", "warpsmith": backend}
    calls = {who: torch.compile(models[who], backend=how[who], dynamic=False) for who in models}
    apart = {who: distances(_gradients(calls[who], models[who], inputs), exact) for who in models}
    wrong = {who: max(each) for who, each in apart.items()}
    names = "loss", *(n for n, p in models["warpsmith"].named_parameters() if p.grad is not None)
    worst = names[apart["warpsmith"].index(wrong["warpsmith"])]

    def step(who: str) -> None:
        models[who].zero_grad()
        calls[who](*inputs).backward()

    def forward(who: str) -> None:
        with torch.no_grad():
            calls[who](*inputs)

    found = []
    for what, run in (("forward", forward), ("step", step)):
        graphs = {who: _recorded(partial(run, who)) for who in models}
        with taking_turns():
            us = _replayed(graphs)
        shapes = tuple(tuple(x.shape) for x in inputs)
        found.append(Row(name=name, what=what, shapes=shapes, us=us, wrong=wrong, furthest=worst))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="says the sizes")
    parser.add_argument("--names", nargs="*", default=list(NETWORKS), choices=list(NETWORKS))
    parser.add_argument("--json", type=Path, help="keep the rows in this file")
    parser.add_argument("--part", default="0/1", help="every n-th of them, from one on: `2/7`")
    options = parser.parse_args()
    setting = setting_here("none", quick=True)
    if setting.gpu == "none":
        raise DeviceError("networks are timed on a GPU, and there is none", code="WS0345")
    torch.backends.cuda.enable_cudnn_sdp(False)
    first, each = map(int, options.part.split("/"))
    rows: list[Row] = []
    for name in options.names[first::each]:
        try:
            rows += rows_of(name, options.seed)
        except Exception as failure:
            print(f"{name}: {one_line(failure)}", flush=True)
            continue
        print(*rows[-2:], sep="\n", flush=True)
        if options.json:
            told = {"gpu": setting.gpu, "date": setting.date, "versions": setting.versions}
            whole = {**told, "seed": options.seed, "rows": [asdict(row) for row in rows]}
            options.json.write_text(json.dumps(whole))
    for what in ("forward", "step"):
        if ratios := [row.ratio for row in rows if row.what == what]:
            mean, least = geometric_mean(ratios), min(ratios)
            print(f"{what}: {len(ratios)}, {mean:.3f} x Inductor, least {least:.2f}")
    return int(any(not row.is_right for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
