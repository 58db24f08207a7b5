"""Compiles sources.py for sm_90a and writes NAME.ptx and NAME.json for each kernel beside it.

Run it with a Python that has Triton 3.6.0 and NumPy; no GPU is needed. A kernel's parameters are
its arguments, then two scratch pointers that Triton adds: global and profile. A tensor descriptor
becomes a tensor map, its sizes and its strides.
"""

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sources
import triton
from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

HERE = Path(__file__).parent
TARGET = GPUTarget("cuda", 90, 32)
SHORT = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "fp8e4nv",
    "int32": "i32",
}
SWIZZLES = ("none", "32B", "64B", "128B")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """A tensor in global memory; `block` makes it a descriptor with that block."""

    dtype: str
    shape: tuple[int, ...]
    init: str
    block: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How one kernel is compiled and launched. Arguments are tensors or scalars.

    `name` is that of the files; `kernel` that of the function, where it is another.
    """

    name: str
    kernel: str = ""
    arguments: Mapping[str, Tensor | int | float]
    constants: Mapping[str, int]
    grid: tuple[int, int, int]
    outputs: tuple[str, ...]
    num_warps: int = 4
    num_stages: int = 3
    # Arguments that are multiples of 16, besides the pointers.
    aligned: tuple[str, ...] = ()


def matrix(
    rows: int,
    columns: int,
    init: str = "randn",
    block: tuple[int, ...] = (),
    dtype: str = "bfloat16",
) -> Tensor:
    return Tensor(dtype=dtype, shape=(rows, columns), init=init, block=block)


def floats(*shape: int, init: str = "randn") -> Tensor:
    return Tensor(dtype="float32", shape=shape, init=init)


LAUNCHES = (
    Launch(
        name="add",
        arguments={"x": floats(1000), "y": floats(1000), "out": floats(1000, init="nan"),
                   "size": 1000},
        constants={"BLOCK": 256},
        grid=(4, 1, 1),
        outputs=("out",),
    ),
    Launch(
        name="softmax",
        arguments={"x": floats(3, 200), "out": floats(3, 200, init="nan"), "columns": 200},
        constants={"BLOCK": 256},
        grid=(3, 1, 1),
        outputs=("out",),
    ),
    Launch(
        name="layer_norm",
        arguments={"x": matrix(3, 1008), "weight": matrix(1, 1008), "bias": matrix(1, 1008),
                   "out": matrix(3, 1008, "nan"), "mean_out": floats(3, init="nan"),
                   "rstd_out": floats(3, init="nan"), "columns": 1008, "eps": 1e-5},
        constants={"BLOCK": 512},
        grid=(3, 1, 1),
        outputs=("out", "mean_out", "rstd_out"),
        aligned=("columns",),
    ),
    Launch(
        name="matmul_descriptors",
        arguments={"a": matrix(128, 320, block=(64, 64)), "b": matrix(256, 320, block=(128, 64)),
                   "d": matrix(128, 256, "nan", block=(64, 128)), "k_size": 320},
        constants={"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 64},
        grid=(2, 2, 1),
        outputs=("d",),
    ),
    Launch(
        name="matmul_transposed",
        arguments={"a": matrix(192, 64, block=(64, 64)), "b": matrix(192, 128, block=(64, 64)),
                   "d": matrix(64, 128, "nan", block=(64, 64)), "k_size": 192},
        constants={"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64},
        grid=(1, 2, 1),
        outputs=("d",),
    ),
    Launch(
        name="matmul_fp8",
        kernel="matmul_descriptors",
        arguments={"a": matrix(64, 256, block=(64, 128), dtype="float8_e4m3fn"),
                   "b": matrix(64, 256, block=(64, 128), dtype="float8_e4m3fn"),
                   "d": matrix(64, 64, "nan", block=(64, 64)), "k_size": 256},
        constants={"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 128},
        grid=(1, 1, 1),
        outputs=("d",),
    ),
    Launch(
        name="matmul_tf32",
        kernel="matmul_descriptors",
        arguments={"a": matrix(64, 128, block=(64, 32), dtype="float32"),
                   "b": matrix(64, 128, block=(64, 32), dtype="float32"),
                   "d": matrix(64, 64, "nan", block=(64, 64)), "k_size": 128},
        constants={"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 32},
        grid=(1, 1, 1),
        outputs=("d",),
    ),
    Launch(
        name="matmul_warp_specialized",
        arguments={"a": matrix(128, 256, block=(64, 64)), "b": matrix(192, 256, block=(64, 64)),
                   "d": matrix(128, 192, "nan"), "n_size": 192, "k_size": 256, "tiles_m": 2,
                   "tiles": 6},
        constants={"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64},
        grid=(2, 1, 1),
        outputs=("d",),
        aligned=("n_size",),
    ),
    Launch(
        name="matmul_pointers",
        arguments={"a": matrix(100, 256), "b": matrix(256, 96), "d": matrix(100, 96, "nan"),
                   "m_size": 100, "n_size": 96, "k_size": 256},
        constants={"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64},
        grid=(2, 2, 1),
        outputs=("d",),
        aligned=("n_size", "k_size"),
    ),
    Launch(
        name="transpose",
        arguments={"x": Tensor(dtype="float16", shape=(64, 128), init="randn", block=(32, 64)),
                   "out": Tensor(dtype="float16", shape=(128, 64), init="nan", block=(64, 32))},
        constants={"ROWS": 32, "COLUMNS": 64},
        grid=(2, 2, 1),
        outputs=("out",),
    ),
    Launch(
        name="device_descriptors",
        arguments={"x": floats(64, 32), "out": floats(64, 32, init="nan"), "rows": 64,
                   "columns": 32, "tiles": 2},
        constants={"ROWS": 16, "COLUMNS": 32},
        grid=(2, 1, 1),
        outputs=("out",),
        aligned=("columns",),
    ),
    Launch(
        name="histogram",
        arguments={"x": Tensor(dtype="int32", shape=(1000,), init="randint"),
                   "counts": Tensor(dtype="int32", shape=(32,), init="zeros"), "size": 1000},
        constants={"BLOCK": 256, "BINS": 32},
        grid=(4, 1, 1),
        outputs=("counts",),
    ),
    Launch(
        name="split_k",
        arguments={"a": matrix(64, 256), "b": matrix(64, 256), "d": floats(64, 64, init="zeros"),
                   "k_size": 256, "part": 64},
        constants={"BLOCK": 64, "BLOCK_K": 32},
        grid=(4, 1, 1),
        outputs=("d",),
        aligned=("k_size", "part"),
    ),
)  # fmt: skip


def compiled(launch: Launch) -> Any:
    kernel = getattr(sources, launch.kernel or launch.name)
    names = list(kernel.arg_names)
    signature = {name: _type(value) for name, value in launch.arguments.items()}
    pointers = [name for name, kind in signature.items() if kind.startswith("*")]
    source = ASTSource(
        kernel,
        signature={**signature, **dict.fromkeys(launch.constants, "constexpr")},
        constexprs={(names.index(name),): value for name, value in launch.constants.items()},
        attrs={
            (names.index(name),): [["tt.divisibility", 16]] for name in (*pointers, *launch.aligned)
        },
    )
    options = {"num_warps": launch.num_warps, "num_stages": launch.num_stages}
    return triton.compile(source, target=TARGET, options=options)


def _type(value: Tensor | int | float) -> str:
    if not isinstance(value, Tensor):
        return "fp32" if isinstance(value, float) else "i32"
    if value.block:
        return f"tensordesc<{SHORT[value.dtype]}[{','.join(map(str, value.block))}]>"
    return f"*{SHORT[value.dtype]}"


def spec_of(launch: Launch, kernel: Any) -> dict[str, Any]:
    """The launch in the simulator's form."""
    metadata = kernel.metadata
    boxes = iter(metadata.tensordesc_meta or ())
    buffers: dict[str, Any] = {}
    params: list[Any] = []
    for name, value in launch.arguments.items():
        if not isinstance(value, Tensor):
            params.append({"f32" if isinstance(value, float) else "i32": value})
            continue
        buffers[name] = {"dtype": value.dtype, "shape": list(value.shape), "init": value.init}
        params += _descriptor(name, value, next(boxes)) if value.block else [{"ptr": name}]
    programs = launch.grid[0] * launch.grid[1] * launch.grid[2]
    if metadata.global_scratch_size:
        size = metadata.global_scratch_size * programs
        buffers["scratch"] = {"dtype": "uint8", "shape": [size], "init": "zeros"}
    params += [{"ptr": "scratch"} if "scratch" in buffers else {"u64": 0}, {"u64": 0}]
    (threads,) = re.findall(r"\.reqntid (\d+)", kernel.asm["ptx"])
    return {
        "kernel": launch.kernel or launch.name,
        "grid": list(launch.grid),
        "block": [int(threads), 1, 1],
        "cluster": [1, 1, 1],
        "shared_bytes": metadata.shared,
        "registers": _registers(kernel.asm["ptx"]),
        "buffers": buffers,
        "params": params,
        "outputs": list(launch.outputs),
    }


def _descriptor(name: str, tensor: Tensor, form: Mapping[str, Any]) -> list[Any]:
    """The map, the sizes and the strides. Triton may narrow the box to the swizzle's span."""
    rows, columns = tensor.shape
    tensor_map = {
        "buffer": name,
        "dtype": "uint8" if tensor.dtype.startswith("float8") else tensor.dtype,
        "dims": [columns, rows],
        "strides_bytes": [columns * form["elem_size"]],
        "box": form["block_size"][::-1],
        "element_strides": [1, 1],
        "swizzle": SWIZZLES[form["swizzle"]],
    }
    return [
        {"tensormap": tensor_map},
        {"i32": rows},
        {"i32": columns},
        {"i64": columns},
        {"i64": 1},
    ]


def _registers(ptx: str) -> int:
    """Registers a thread at entry, by the assembler that comes with Triton."""
    command = [knobs.nvidia.ptxas.path, "-arch=sm_90a", "-v", "-", "-o", "/dev/null"]
    log = subprocess.run(command, input=ptx, capture_output=True, text=True, check=True).stderr
    return int(re.findall(r"Used (\d+) registers", log)[0])


def stored_ptx(launch: Launch, ptx: str) -> str:
    """The PTX with the sources' names alone, not their folders, and no debugger's sections."""
    ptx = re.sub(r'(\.file\s+\d+) ".*/(.*)"', r'\1 "\2"', ptx)
    ptx = re.sub(r"^\t\.section.*", "", ptx, flags=re.MULTILINE | re.DOTALL)
    constants = ", ".join(f"{name}={value}" for name, value in launch.constants.items())
    return (
        f"// {launch.kernel or launch.name} of sources.py by Triton {triton.__version__}: "
        f"{constants}, num_warps={launch.num_warps}, num_stages={launch.num_stages}. "
        "Written by generate.py.\n"
        f"{ptx.strip()}\n"
    )


def spec_text(spec: Mapping[str, Any]) -> str:
    """JSON with one buffer and one parameter a line."""
    lines = []
    for key, value in spec.items():
        if key == "buffers":
            entries = (f'    "{name}": {json.dumps(form)}' for name, form in value.items())
            text = "{\n" + ",\n".join(entries) + "\n  }"
        elif key == "params":
            text = "[\n" + ",\n".join(f"    {json.dumps(param)}" for param in value) + "\n  ]"
        else:
            text = json.dumps(value)
        lines.append(f'  "{key}": {text}')
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    for launch in LAUNCHES:
        kernel = compiled(launch)
        (HERE / f"{launch.name}.ptx").write_text(stored_ptx(launch, kernel.asm["ptx"]))
        (HERE / f"{launch.name}.json").write_text(spec_text(spec_of(launch, kernel)))


if __name__ == "__main__":
    main()
