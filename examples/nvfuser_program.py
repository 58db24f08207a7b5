"""A program for nvFuser, unchanged, on warpsmith.

    python examples/nvfuser_program.py

Behind the first two lines it is as it would be for nvFuser: it imports `nvfuser_direct`.
"""

import warpsmith

warpsmith.install_as_nvfuser()

import torch  # noqa: E402
from nvfuser_direct import DataType, FusionDefinition, LruFusionCache  # noqa: E402
from nvfuser_direct.pytorch_utils import torch_dtype_to_nvfuser_dtype  # noqa: E402


@LruFusionCache(max_fusions=16)
def rms_norm(dtype: torch.dtype, eps: float) -> FusionDefinition:
    """`x * rsqrt(mean(x * x) + eps) * weight` over rows."""
    kind = torch_dtype_to_nvfuser_dtype(dtype)
    with FusionDefinition() as fd:
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=kind)
        weight = fd.define_tensor(shape=[-1], contiguity=[True], dtype=kind)
        wide = fd.ops.cast(x, dtype=DataType.Float)
        total = fd.ops.sum(fd.ops.mul(wide, wide), dims=[1], keepdim=True)
        mean = fd.ops.div(total, fd.ops.size(x, 1))
        scale = fd.ops.rsqrt(fd.ops.add(mean, fd.define_scalar(eps)))
        rows = fd.ops.broadcast_in_dim(weight, shape=x.shape(), broadcast_dims=[1])
        normal = fd.ops.mul(fd.ops.mul(wide, scale), rows)
        fd.add_output(fd.ops.cast(normal, dtype=kind))
    return fd


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    weight = torch.randn(256, device=device, dtype=torch.bfloat16)
    for rows in (4, 16):
        x = torch.randn(rows, 256, device=device, dtype=torch.bfloat16)
        fd = rms_norm(x.dtype, 1e-6)
        (result,) = fd.execute([x, weight])
        wanted = torch.nn.functional.rms_norm(x, (256,), weight, 1e-6)
        torch.testing.assert_close(result, wanted)
    print(fd)
    print(rms_norm.stats())
    print(f"{len(fd.fec.get_cuda_kernel([x, weight]).splitlines())} lines of CUDA")


if __name__ == "__main__":
    main()
