"""Three products with what stands around them: which kernels they become, and why.

    python examples/fused_mlp.py

A product takes pointwise work behind it as its epilogue where that is cheaper than a kernel of its
own, and two products of one operand whose results meet, as the gate and what it gates do, are one
kernel. `explain` lists the kernels, the cuts between them, and what each cut costs.
"""

import numpy as np

import warpsmith
from warpsmith import ops


@warpsmith.fuse
def mlp(x, up, gate, down):
    """SwiGLU: `(silu(x @ gate.T) * (x @ up.T)) @ down.T + x`."""
    hidden = ops.silu(ops.linear(x, gate)) * ops.linear(x, up)
    return ops.linear(hidden, down) + x


def main() -> None:
    random = np.random.default_rng(0)
    x, up, gate, down = (
        (random.standard_normal(shape) / 8).astype(np.float16)
        for shape in ((64, 64), (128, 64), (128, 64), (64, 128))
    )
    out = mlp(x, up, gate, down)

    exact = [value.astype(np.float64) for value in (x, up, gate, down)]
    opened = exact[0] @ exact[2].T
    hidden = opened / (1 + np.exp(-opened)) * (exact[0] @ exact[1].T)
    print(f"largest error: {np.abs(out - (hidden @ exact[3].T + exact[0])).max():.1e}")

    compiled = mlp.lower(x, up, gate, down).compile()
    for number, kernel in enumerate(compiled.kernels):
        instructions = str(kernel.asm["ptx"]).count("wgmma.mma_async")
        print(f"kernel {number}: {kernel.n_regs} registers, {instructions} wgmma in its text")
    print(compiled.explain())


if __name__ == "__main__":
    main()
