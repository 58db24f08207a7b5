"""What each Triton kernel of tests/sim/kernels/triton computes, in float64."""

import numpy as np

from tests.sim.support.expected import BFLOAT16_ROUNDING, Arrays, Expected, Spec, scalar, wide


def add(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    return {"out": wide(arrays["x"]) + wide(arrays["y"])}


def softmax(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    x = wide(arrays["x"])
    powers = np.exp(x - x.max(axis=1, keepdims=True))
    return {"out": powers / powers.sum(axis=1, keepdims=True)}


def layer_norm(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    x = wide(arrays["x"])
    mean = x.mean(axis=1, keepdims=True)
    rstd = 1 / np.sqrt(x.var(axis=1, keepdims=True) + scalar(spec, 7))
    out = (x - mean) * rstd * wide(arrays["weight"]) + wide(arrays["bias"])
    return {"out": out, "mean_out": mean[:, 0], "rstd_out": rstd[:, 0]}


def matmul(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    return {"d": wide(arrays["a"]) @ wide(arrays["b"])}


def matmul_transposed(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    return {"d": wide(arrays["a"]) @ wide(arrays["b"]).T}


def matmul_of_transposed(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    return {"d": wide(arrays["a"]).T @ wide(arrays["b"])}


def transpose(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    return {"out": wide(arrays["x"]).T}


def device_descriptors(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    return {"out": 2 * wide(arrays["x"])}


def histogram(spec: Spec, arrays: Arrays) -> dict[str, np.ndarray]:
    return {"counts": np.bincount(arrays["x"] & 31, minlength=32)}


EXPECTED_TRITON = {
    "triton/add": Expected(compute=add, atol=1e-6),
    "triton/softmax": Expected(compute=softmax, rtol=1e-5),
    "triton/layer_norm": Expected(compute=layer_norm, rtol=BFLOAT16_ROUNDING, atol=1e-4),
    "triton/matmul_descriptors": Expected(
        compute=matmul_transposed, rtol=BFLOAT16_ROUNDING, atol=1e-3
    ),
    "triton/matmul_warp_specialized": Expected(
        compute=matmul_transposed, rtol=BFLOAT16_ROUNDING, atol=1e-3
    ),
    "triton/matmul_pointers": Expected(compute=matmul, rtol=BFLOAT16_ROUNDING, atol=1e-3),
    "triton/matmul_transposed": Expected(
        compute=matmul_of_transposed, rtol=BFLOAT16_ROUNDING, atol=1e-3
    ),
    # The tensor core adds fp8 products with 14 bits, and drops the last 13 bits of fp32 operands.
    "triton/matmul_fp8": Expected(compute=matmul_transposed, rtol=BFLOAT16_ROUNDING, atol=0.05),
    "triton/matmul_tf32": Expected(compute=matmul_transposed, rtol=BFLOAT16_ROUNDING, atol=0.05),
    "triton/transpose": Expected(compute=transpose, rtol=0.0),
    "triton/device_descriptors": Expected(compute=device_descriptors, rtol=0.0),
    "triton/histogram": Expected(compute=histogram, rtol=0.0),
    "triton/split_k": Expected(compute=matmul_transposed, rtol=1e-4, atol=1e-3),
}
