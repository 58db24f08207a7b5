"""Seconds until a stack of layers under `torch.compile` has done its first step, cold and warm.

python -m bench.warm_start                     # small layers on the CPU, or of 1024 on a GPU
python -m bench.warm_start --layers 8 --width 2048

Each line is a process of its own: the first finds nothing on disk, the others what it left. By the
clock and, in brackets, in processor time of all threads, which other work of the machine does not
lengthen.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_PARTS = ("import", "dynamo", "key", "autograd", "ours", "planned", "rest", "total", "again")
_HEAD = f"{'':10}" + "".join(f"{part:>16}" for part in _PARTS) + "  loss, gradients"


class Clock:
    """Seconds by part, of which one runs at a time: what is in another does not count twice."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self._open: list[str] = []
        self._last = self._now()

    @staticmethod
    def _now() -> tuple[float, float]:
        return time.perf_counter(), time.process_time()

    def _count(self) -> None:
        now = self._now()
        if self._open:
            spent = self.spent.setdefault(self._open[-1], [0.0, 0.0])
            for place in range(2):
                spent[place] += now[place] - self._last[place]
        self._last = now

    @contextmanager
    def part(self, name: str) -> Any:
        self._count()
        self._open.append(name)
        try:
            yield
        finally:
            self._count()
            self._open.pop()

    def within(self, place: Any, name: str, part: str) -> None:
        """Let a function count as a part."""
        function: Callable[..., Any] = getattr(place, name)

        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.part(part):
                return function(*args, **kwargs)

        setattr(place, name, timed)


def first_step(layers: int, width: int, backend_name: str) -> dict[str, Any]:
    """What a process spends on its first step, and what that gives."""
    clock = Clock()
    with clock.part("total"):
        with clock.part("import"):
            import torch
            from torch._functorch._aot_autograd import autograd_cache

            from bench.small_models import Size, loss_of, made
            from warpsmith.torch_backend import backend, compilers, kept
            from warpsmith.torch_backend.program import Program

        with clock.part("model"):
            torch.manual_seed(0)
            on_gpu = torch.cuda.is_available()
            length, words = (1024, 32000) if on_gpu else (16, 96)
            size = Size(width, width * 11 // 4, width // 64 or 1, 1, layers, words, 1, length)
            with torch.device("cuda" if on_gpu else "cpu"):
                model, inputs = made("own_llama", size)
            model = model.bfloat16() if on_gpu else model
        if backend_name == "warpsmith":
            clock.within(compilers, "_compiled", "ours")
            clock.within(kept, "written", "ours")
            clock.within(kept, "read", "ours")
            clock.within(Program, "_prepared", "planned")
        clock.within(autograd_cache, "autograd_cache_key", "key")

        def ours(*args: Any, **kwargs: Any) -> Any:
            with clock.part("autograd"):
                return backend.backend(*args, **kwargs)

        with clock.part("dynamo"):  # until the backend has it, and the guards behind it
            chosen = ours if backend_name == "warpsmith" else backend_name
            fast = torch.compile(model, backend=chosen)
            loss = loss_of(fast(**inputs))
        with clock.part("rest"):
            loss.backward()
            grads = [p.grad for p in model.parameters() if p.grad is not None]
            found = float(loss.detach()), float(sum(g.double().abs().sum() for g in grads))
    with clock.part("again"):
        loss_of(fast(**inputs)).backward()
        if on_gpu:
            torch.cuda.synchronize()
    model_s = clock.spent.pop("model")
    clock.spent["total"] = [
        sum(s[k] for p, s in clock.spent.items() if p != "again") for k in (0, 1)
    ]
    return {"spent": clock.spent, "found": found, "model": model_s}


def measure(layers: int, width: int, backend_name: str, times: int) -> None:
    """Prints a line for each process."""
    with tempfile.TemporaryDirectory() as folder:
        told = {
            "TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch",
            "WARPSMITH_CACHE_DIR": f"{folder}/warpsmith",
            "TRITON_CACHE_DIR": f"{folder}/triton",
            "WARPSMITH_KEEP_EMITTED": "1",
        }
        print(f"{layers} layers of {width}, {backend_name}\n{_HEAD}", flush=True)
        for number in range(times):
            asked = [str(layers), str(width), backend_name]
            done = subprocess.run(
                [sys.executable, "-m", "bench.warm_start", "--child", *asked],
                env={**os.environ, **told},  # noqa: TID251
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
            found = json.loads(done.stdout.splitlines()[-1])
            spent = (found["spent"].get(part, [0.0, 0.0]) for part in _PARTS)
            cells = "".join(f"{clock:8.2f} ({cpu:5.2f})" for clock, cpu in spent)
            name = "warm" if number else "cold"
            loss, gradients = found["found"]
            print(f"{name:10}{cells}  {loss:.6f} {gradients:.5g}", flush=True)
        size = sum(each.stat().st_size for each in Path(folder).rglob("*") if each.is_file())
        print(f"on disk {size / 2**20:.1f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--layers", type=int, default=32)
    parser.add_argument("--width", type=int, help="of layers; 64 on the CPU, 1024 on a GPU")
    parser.add_argument("--backend", default="warpsmith", help="or another one, as inductor")
    parser.add_argument("--times", type=int, default=3, help="processes, one cold")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.child:
        layers, width, name = asked.child
        print(json.dumps(first_step(int(layers), int(width), name)))
        return
    width = asked.width
    if width is None:
        import torch

        width = 1024 if torch.cuda.is_available() else 64
    measure(asked.layers, width, asked.backend, asked.times)


if __name__ == "__main__":
    main()
