"""A norm from a plain function, on any machine.

    python examples/norm.py

`fuse` traces the function once, plans its kernels, compiles them and runs them: on a GPU where
there is one, else on the simulator. Rows stay in registers, so each is read once.
"""

import numpy as np

import warpsmith
from warpsmith import ops


@warpsmith.fuse
def rms_norm(x, residual, weight):
    """Add the residual, normalize; both results leave in the type of x."""
    total = x.to(warpsmith.DataType.Float) + residual
    scale = ops.rsqrt(ops.mean(total * total, [-1], keepdim=True) + 1e-6)
    return (total * scale * weight).to(x.dtype), total.to(x.dtype)


def main() -> None:
    random = np.random.default_rng(0)
    x, residual = random.standard_normal((2, 6, 1000)).astype(np.float16)
    weight = random.standard_normal(1000).astype(np.float16)

    normalized, total = rms_norm(x, residual, weight)
    wanted = x.astype(np.float64) + residual
    assert np.abs(total - wanted).max() < 0.01
    wanted *= weight / np.sqrt(np.square(wanted).mean(axis=1, keepdims=True) + 1e-6)
    print(f"largest error: {np.abs(normalized - wanted).max():.1e}")

    compiled = rms_norm.lower(x, residual, weight).compile()
    print(
        f"{len(compiled.kernels)} kernel, {compiled.n_regs} registers, {compiled.n_spills} spills"
    )
    print(compiled.explain())
    print(compiled.verify(schedules=2))  # orders of warps, on the simulator


if __name__ == "__main__":
    main()
