"""CUDA C++ of the kernels that record tensor copies and matrix products."""

from tests.sim.support.product_cases import WIDTH, Mma, WgmmaForm

HEAD = """
using u8 = unsigned char;
using u32 = unsigned;
using u64 = unsigned long long;
struct alignas(64) Map { u64 words[16]; };
__device__ u32 address(const void *p) { return (u32)__cvta_generic_to_shared(p); }
extern __shared__ __align__(1024) u8 shared[];
"""
COORDINATES = [",".join(f"%{2 + i}" for i in range(rank)) for rank in range(1, 6)]
PARAMETERS = "const __grid_constant__ Map map, int rank, int c0, int c1, int c2, int c3, int c4"
FROM_C = '"r"(c0), "r"(c1), "r"(c2), "r"(c3), "r"(c4)'

LOAD = """
extern "C" __global__ void load(@parameters, u32 base, u32 bytes, u8 *out, u32 *status, u32 dump) {
  __shared__ u64 barrier;
  for (u32 i = threadIdx.x; i < dump; i += blockDim.x) shared[i] = 0xA5;
  u32 at = address(&barrier), to = address(shared) + base;
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(at) : "memory");
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    switch (rank) { @loads }
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(at), "r"(bytes) : "memory");
    u32 done = 0;
    for (long long start = clock64(); !done && clock64() - start < 400000;)
      asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], 0, 0x100;"
                   " selp.u32 %0, 1, 0, p; }" : "=r"(done) : "r"(at) : "memory");
    status[0] = done;
    status[1] = address(shared);
  }
  __syncthreads();
  for (u32 i = threadIdx.x; i < dump; i += blockDim.x) out[i] = shared[i];
}
"""
LOAD_ONE = (
    'case @rank: asm volatile("cp.async.bulk.tensor.@rankd.shared::cluster.global.tile.'
    'mbarrier::complete_tx::bytes [%0], [%1, {@coordinates}], [%7];" :: '
    f'"r"(to), "l"(&map), {FROM_C}, "r"(at) : "memory"); break;'
)
STORE = """
extern "C" __global__ void store(@parameters, u32 base, const u8 *in, u32 dump) {
  for (u32 i = threadIdx.x; i < dump; i += blockDim.x) shared[i] = in[i];
  u32 from = address(shared) + base;
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  if (threadIdx.x == 0) {
    switch (rank) { @stores }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""
STORE_ONE = (
    'case @rank: asm volatile("cp.async.bulk.tensor.@rankd.global.shared::cta.tile.bulk_group '
    '[%1, {@coordinates}], [%0];" :: '
    f'"r"(from), "l"(&map), {FROM_C} : "memory"); break;'
)


def copies() -> str:
    """`load` and `store`, of all ranks."""

    def all_ranks(text: str) -> str:
        return " ".join(
            text.replace("@rank", str(rank)).replace("@coordinates", COORDINATES[rank - 1])
            for rank in range(1, 6)
        )

    load = LOAD.replace("@parameters", PARAMETERS).replace("@loads", all_ranks(LOAD_ONE))
    store = STORE.replace("@parameters", PARAMETERS).replace("@stores", all_ranks(STORE_ONE))
    return HEAD + load + store


def _list(first: int, count: int) -> str:
    return "{" + ",".join(f"%{first + i}" for i in range(count)) + "}"


def _operands(constraint: str, name: str, count: int) -> list[str]:
    return [f'"{constraint}"({name}[{i}])' for i in range(count)]


def mma(form: Mma) -> str:
    """`run`: one warp a block."""
    wide = form.a == "f64"
    packed, d_packed = max(1, 32 // WIDTH[form.a]), max(1, 32 // WIDTH[form.d])
    a, b = form.m * form.k // 32 // packed, form.k * 8 // 32 // packed
    d = form.m * 8 // 32 // d_packed
    ab, c = ("double", "d") if wide else ("u32", "r")
    sums, s = {"f64": ("double", "d"), "f32": ("float", "f")}.get(form.d, ("u32", "r"))
    saturate = ".satfinite" if form.name.endswith("sat") else ""
    instruction = (
        f"mma.sync.aligned.m{form.m}n8k{form.k}.row.col{saturate}"
        f".{form.d}.{form.a}.{form.b}.{form.d} "
        f"{_list(0, d)}, {_list(d, a)}, {_list(d + a, b)}, {_list(d + a + b, d)};"
    )
    inputs = _operands(c, "a", a) + _operands(c, "b", b) + _operands(s, "c", d)
    return f"""{HEAD}
extern "C" __global__ void run(const {ab} *A, const {ab} *B, const {sums} *C, {sums} *D) {{
  {ab} a[{a}], b[{b}];
  {sums} c[{d}], d[{d}];
  int warp = blockIdx.x, lane = threadIdx.x;
  for (int i = 0; i < {a}; i++) a[i] = A[(warp * {a} + i) * 32 + lane];
  for (int i = 0; i < {b}; i++) b[i] = B[(warp * {b} + i) * 32 + lane];
  for (int i = 0; i < {d}; i++) c[i] = C[(warp * {d} + i) * 32 + lane];
  asm volatile("{instruction}" : {", ".join(_operands("=" + s, "d", d))} : {", ".join(inputs)});
  for (int i = 0; i < {d}; i++) D[(warp * {d} + i) * 32 + lane] = d[i];
}}
"""


def wgmma(form: WgmmaForm) -> str:
    """`run`: one warp group a block, D in place. Descriptors count from the image's start."""
    d = form.n // 2 if WIDTH[form.d] == 32 else form.n // 4
    sums, s = ("float", "f") if form.d == "f32" else ("u32", "r")
    a = _list(d, 4) if form.a_registers else f"%{d}"
    b = d + (4 if form.a_registers else 1)
    saturate = ".satfinite" if form.name.endswith("sat") else ""
    tail = "" if form.d == "s32" else f", {form.scale_a}, {form.scale_b}"
    if form.a in ("f16", "bf16"):
        tail += "" if form.a_registers else f", {int(form.a_transposed)}"
        tail += f", {int(form.b_transposed)}"
    instruction = (
        f"{{ .reg .pred p; setp.ne.b32 p, %{b + 1}, 0; "
        f"wgmma.mma_async.sync.aligned.m64n{form.n}k{form.k}.{form.d}.{form.a}.{form.b}{saturate} "
        f"{_list(0, d)}, {a}, %{b}, p{tail}; }}"
    )
    inputs = [*(_operands("r", "a", 4) if form.a_registers else ['"l"(first)'])]
    inputs += ['"l"(second)', '"r"(add)']
    return f"""{HEAD}
extern "C" __global__ void __launch_bounds__(128) run(
    const u64 *image, u64 pitch, u32 bytes, const u64 *descriptors, const u32 *A, {sums} *C) {{
  int block = blockIdx.x, t = threadIdx.x;
  for (u32 i = t; i < bytes / 8; i += 128) ((u64 *)shared)[i] = image[block * pitch + i];
  u64 start = address(shared) >> 4;
  u64 first = descriptors[3 * block] + start, second = descriptors[3 * block + 1] + start;
  u32 add = (u32)descriptors[3 * block + 2], a[4];
  {sums} d[{d}];
  for (int i = 0; i < 4; i++) a[i] = A[(block * 4 + i) * 128 + t];
  for (int i = 0; i < {d}; i++) d[i] = C[(block * {d} + i) * 128 + t];
  asm volatile("fence.proxy.async;" ::: "memory");
  __syncthreads();
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile("{instruction}"
               : {", ".join(_operands("+" + s, "d", d))} : {", ".join(inputs)} : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
  for (int i = 0; i < {d}; i++) C[(block * {d} + i) * 128 + t] = d[i];
}}
"""
