"""Cross entropy forward, backward and as a step of training: `python -m bench.losses`.

Each contender is held against PyTorch in float64 first, and then timed in turn with the others and
with plain passes over the same bytes: forward reads of the logits, backward copies of them. A step
is both; `one pass` is `cross_entropy_with_gradient`, which reads the logits once. Sizes are those
that are known, and as many as asked for that a seed draws: half of them any lengths, half multiples
of 8. Without a GPU nothing is timed; `--quick` takes small sizes.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import random
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from bench.ceilings import read_passes, traffic_passes
from bench.measure import gpu_name, one_line
from warpsmith.testing import do_bench_interleaved, relative_error

SIZES = ((8192, 32000), (4096, 128256))
QUICK_SIZES = ((16, 320), (5, 1001))

MOST_ELEMENTS = 4096 * 128256
"""Logits of a size that is drawn."""

LARGEST_ERROR = 1e-2
"""Of bfloat16 relative to float64, as a norm."""

PARTS = ("forward", "backward", "step")

Call = Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One contender: median microseconds, and those of a plain pass over its bytes.

    Attributes:
        ceiling_us: of the fewest bytes that the part can move.
        own_ceiling_us: of those that warpsmith moves, where these are more.
        error: relative to float64; of a failure, what it says.
    """

    part: str
    rows: int
    classes: int
    contender: str
    us: float | None = None
    ceiling_us: float | None = None
    own_ceiling_us: float | None = None
    error: float | None = None
    failure: str = ""

    @property
    def is_right(self) -> bool:
        return self.error is not None and self.error <= LARGEST_ERROR


@dataclass(frozen=True, slots=True)
class Inputs:
    """Logits in bfloat16 and targets, of which a few are ignored; options of all contenders."""

    x: Any
    target: Any
    options: dict[str, Any]


def drawn_sizes(seed: int, count: int) -> Iterator[tuple[int, int]]:
    """Rows and classes, of which every second size has a multiple of 8."""
    source = random.Random(seed)
    for number in range(count):
        classes = round(2 ** source.uniform(10, 18))
        classes -= classes % 8 if number % 2 else 0
        most = min(32768, MOST_ELEMENTS // classes)
        yield round(2 ** source.uniform(6, most.bit_length() - 1)), classes


def drawn(rows: int, classes: int, options: dict[str, float]) -> Inputs:
    """Normal logits."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    x = torch.randn(rows, classes, device=device).bfloat16()
    target = torch.randint(0, classes, (rows,), device=device)
    target[::17] = -100
    return Inputs(x, target, options)


def exact(inputs: Inputs) -> tuple[Any, Any]:
    """The loss and its gradient in float64, row by row where they are many."""
    import torch

    kept = int((inputs.target != -100).sum())
    loss, gradients = torch.zeros((), dtype=torch.float64, device=inputs.x.device), []
    for x, target in zip(inputs.x.split(512), inputs.target.split(512), strict=True):
        leaf = x.double().requires_grad_()
        part = _torch_loss(leaf, target, inputs.options, reduction="sum") / kept
        part.backward()
        loss += part.detach()
        gradients.append(leaf.grad.float())
    return loss, torch.cat(gradients)


def _torch_loss(x: Any, target: Any, options: dict[str, float], reduction: str = "mean") -> Any:
    """PyTorch's, computed in float."""
    import torch

    wide = x if x.dtype is torch.float64 else x.float()
    smoothing, z_loss = options["label_smoothing"], options["z_loss"]
    loss = torch.nn.functional.cross_entropy(
        wide, target, label_smoothing=smoothing, reduction=reduction
    )
    if z_loss:
        kept = target != -100
        squares = torch.where(kept, torch.logsumexp(wide, 1).square(), 0.0).sum() * z_loss
        loss = loss + (squares if reduction == "sum" else squares / kept.sum())
    return loss


def contenders(part: str, inputs: Inputs) -> dict[str, Callable[[], Call]]:
    """By name, what prepares a call; it returns a loss, a gradient, or both."""
    import torch

    from warpsmith.nn import functional

    x, target, options = inputs.x, inputs.target, inputs.options
    compiled = torch.compile(partial(_torch_loss, options=options), dynamic=False)
    ours: Callable[..., Any] = partial(functional.cross_entropy, **options)
    theirs: Callable[..., Any] = partial(_torch_loss, options=options)
    by_name = {"warpsmith": ours, "torch": theirs}
    if x.is_cuda:
        by_name["torch_compile"] = compiled
    made: dict[str, Callable[[], Call]] = {}
    for name, loss_of in by_name.items():
        if part == "forward":
            made[name] = partial(_forward, loss_of, x, target)
        elif part == "backward":
            made[name] = partial(_backward, loss_of, x, target)
        else:
            made[name] = partial(_step, loss_of, x, target)
    if part == "step":
        one = functional.cross_entropy_with_gradient
        made["one pass"] = lambda: lambda: one(x, target, **options)
        if x.is_cuda and importlib.util.find_spec("liger_kernel") is not None:
            made["liger"] = lambda: _liger(inputs)
    return made


def _forward(loss_of: Callable[..., Any], x: Any, target: Any) -> Call:
    return lambda: loss_of(x, target)


def _backward(loss_of: Callable[..., Any], x: Any, target: Any) -> Call:
    import torch

    leaf = x.detach().requires_grad_()
    loss = loss_of(leaf, target)
    return lambda: torch.autograd.grad(loss, leaf, retain_graph=True)[0]


def _step(loss_of: Callable[..., Any], x: Any, target: Any) -> Call:
    import torch

    leaf = x.detach().requires_grad_()

    def call() -> Any:
        loss = loss_of(leaf, target)
        return loss.detach(), torch.autograd.grad(loss, leaf)[0]

    return call


def _liger(inputs: Inputs) -> Call:
    """Liger's, which writes the gradient over the logits: it has some of its own, fresh for the
    first call.
    """
    module = importlib.import_module("liger_kernel.ops.cross_entropy")
    smoothing, z_loss = inputs.options["label_smoothing"], inputs.options["z_loss"]
    x = inputs.x.clone()

    def call() -> Any:
        found = module.cross_entropy_forward(
            x, inputs.target, None, -100, z_loss, smoothing, "mean", None, False
        )
        return found[0], found[-1]

    return call


def _error(part: str, found: Any, loss: Any, gradient: Any) -> float:
    """The larger of those of the loss and of the gradient."""
    given = found if part == "step" else (found,)
    wanted = {"forward": (loss,), "backward": (gradient,), "step": (loss, gradient)}[part]
    return max(relative_error(a, b) for a, b in zip(given, wanted, strict=True))


def measured(part: str, inputs: Inputs) -> list[Timed]:
    """Rows of a part; those of a wrong result have no time."""
    rows, classes = inputs.x.shape
    row = partial(Timed, part=part, rows=rows, classes=classes)
    loss, gradient = exact(inputs)
    ready: dict[str, Call] = {}
    errors: dict[str, float] = {}
    found: list[Timed] = []
    for name, prepare in contenders(part, inputs).items():
        try:
            call = prepare()
            errors[name] = _error(part, call(), loss, gradient)
        except Exception as failure:
            found.append(row(contender=name, failure=one_line(failure)))
            continue
        if errors[name] <= LARGEST_ERROR:
            ready[name] = call
    del loss, gradient
    times, ceilings = _timed(part, inputs, ready) if inputs.x.is_cuda else ({}, (None, None))
    for name, error in errors.items():
        own = ceilings[1] if part == "step" and name == "warpsmith" else None
        found.append(
            row(
                contender=name,
                us=times.get(name),
                ceiling_us=ceilings[0],
                own_ceiling_us=own,
                error=error,
            )
        )
    return found


def _timed(
    part: str, inputs: Inputs, ready: dict[str, Call]
) -> tuple[dict[str, float], tuple[float, float]]:
    """Microseconds of the contenders; those of the fewest bytes, and of one read more."""
    size = inputs.x.numel() * inputs.x.element_size()
    copies = {} if part == "forward" else traffic_passes(2 * size, "bfloat16")
    reads = {} if part == "backward" else read_passes(size)
    plain = {f"copy:{name}": fn for name, fn in copies.items()}
    plain |= {f"read:{name}": fn for name, fn in reads.items()}
    times = {name: 1e3 * ms for name, ms in do_bench_interleaved({**ready, **plain}).items()}
    copied, read = (
        min((us for name, us in times.items() if name.startswith(kind)), default=0.0)
        for kind in ("copy:", "read:")
    )
    return times, (copied or read, copied + read)


def shown(row: Timed) -> str:
    """A row as a line."""
    what = f"{row.part:8s} {row.rows}x{row.classes}  {row.contender:13s}"
    if row.failure:
        return f"{what}  failed: {row.failure}"
    if row.us is None or row.ceiling_us is None:
        return f"{what}  {'right' if row.is_right else 'WRONG'}"
    said = f"{row.us:8.1f} us  {100 * row.ceiling_us / row.us:5.1f} % of the ceiling"
    if row.own_ceiling_us is not None:
        said += f", {100 * row.own_ceiling_us / row.us:.1f} of that of its bytes"
    return f"{what}  {said}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--seed", type=int, default=0, help="of the sizes that are drawn")
    parser.add_argument("--count", type=int, default=0, help="sizes that are drawn")
    parser.add_argument("--label-smoothing", type=float, default=0.0)
    parser.add_argument("--z-loss", type=float, default=0.0)
    parser.add_argument("--limit", type=float, help="seconds after which no size is begun")
    parser.add_argument("--json", type=Path, help="where to write the rows")
    options = parser.parse_args(arguments)
    _keep_buffers()
    known = QUICK_SIZES if options.quick else SIZES
    said = {"label_smoothing": options.label_smoothing, "z_loss": options.z_loss}
    started = time.monotonic()
    rows: list[Timed] = []
    print(f"{gpu_name()}; seed {options.seed}")
    for size in (*known, *drawn_sizes(options.seed, options.count)):
        if options.limit is not None and time.monotonic() - started > options.limit:
            print(f"the rest is left out after {options.limit:.0f} s")
            break
        inputs = drawn(*size, said)
        for part in PARTS:
            found = measured(part, inputs)
            rows += found
            print(*map(shown, found), sep="\n", flush=True)
            if options.json:
                kept = {"gpu": gpu_name(), "seed": options.seed, "options": said}
                kept["rows"] = [asdict(row) for row in rows]
                options.json.write_text(json.dumps(kept, indent=1))
    return 0 if all(row.is_right for row in rows if row.contender in OURS) else 1


OURS = ("warpsmith", "one pass")


def _keep_buffers() -> None:
    """Let a compiled gradient run several times, as it does here when it is timed alone."""
    config: Any = importlib.import_module("torch._functorch.config")
    config.donated_buffer = False


if __name__ == "__main__":
    sys.exit(main())
