"""The Triton kernels whose PTX lies beside this file."""

# ruff: noqa: N803 (Triton writes constants of a kernel in capitals)

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, size, BLOCK: tl.constexpr):
    """out = x + y, with a mask at the end."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < size
    total = tl.load(x + places, mask=inside) + tl.load(y + places, mask=inside)
    tl.store(out + places, total, mask=inside)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    """Softmax of a row a program."""
    row = tl.program_id(0)
    places = tl.arange(0, BLOCK)
    inside = places < columns
    values = tl.load(x + row * columns + places, mask=inside, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + places, powers / tl.sum(powers, axis=0), mask=inside)


@triton.jit
def layer_norm(x, weight, bias, out, mean_out, rstd_out, columns, eps, BLOCK: tl.constexpr):
    """Layer normalization of a bf16 row a program, in two passes over blocks of columns."""
    row = tl.program_id(0)
    sums = tl.zeros([BLOCK], tl.float32)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        places = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + places, mask=places < columns, other=0.0)
        values = values.to(tl.float32)
        sums += values
        squares += values * values
    mean = tl.sum(sums, axis=0) / columns
    rstd = 1 / tl.sqrt(tl.sum(squares, axis=0) / columns - mean * mean + eps)
    tl.store(mean_out + row, mean)
    tl.store(rstd_out + row, rstd)
    for start in range(0, columns, BLOCK):
        places = start + tl.arange(0, BLOCK)
        inside = places < columns
        values = tl.load(x + row * columns + places, mask=inside, other=0.0).to(tl.float32)
        scale = tl.load(weight + places, mask=inside).to(tl.float32)
        shift = tl.load(bias + places, mask=inside).to(tl.float32)
        result = (values - mean) * rstd * scale + shift
        tl.store(out + row * columns + places, result.to(tl.bfloat16), mask=inside)


@triton.jit
def matmul_descriptors(
    a, b, d, k_size, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """d = a b^T: tensor copies in a pipelined loop, wgmma, a tensor store."""
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in tl.range(0, k_size, BLOCK_K):
        sums = tl.dot(a.load([row, k]), b.load([column, k]).T, sums)
    d.store([row, column], sums.to(tl.bfloat16))


@triton.jit
def matmul_transposed(
    a, b, d, k_size, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr
):
    """d = a^T b: both operands of wgmma are contiguous along the other dimension than k."""
    row, column = tl.program_id(0) * BLOCK_M, tl.program_id(1) * BLOCK_N
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in tl.range(0, k_size, BLOCK_K):
        sums = tl.dot(a.load([k, row]).T, b.load([k, column]), sums)
    d.store([row, column], sums.to(tl.bfloat16))


@triton.jit
def matmul_warp_specialized(
    a, b, d, n_size, k_size, tiles_m, tiles,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """d = a b^T by persistent programs: one group loads, two multiply."""
    for tile in tl.range(tl.program_id(0), tiles, tl.num_programs(0), warp_specialize=True):
        row, column = tile % tiles_m * BLOCK_M, tile // tiles_m * BLOCK_N
        sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
        for k in range(0, k_size, BLOCK_K):
            sums = tl.dot(a.load([row, k]), b.load([column, k]).T, sums)
        rows = row + tl.arange(0, BLOCK_M)
        columns = column + tl.arange(0, BLOCK_N)
        tl.store(d + rows[:, None] * n_size + columns[None, :], sums.to(tl.bfloat16))


@triton.jit
def matmul_pointers(
    a, b, d, m_size, n_size, k_size,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """d = a b: masked loads in a pipelined loop (cp.async), wgmma, masked stores."""
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    along = tl.arange(0, BLOCK_K)
    sums = tl.zeros([BLOCK_M, BLOCK_N], tl.float32)
    for k in range(0, k_size, BLOCK_K):
        from_a = a + rows[:, None] * k_size + (k + along)[None, :]
        from_b = b + (k + along)[:, None] * n_size + columns[None, :]
        part_a = tl.load(from_a, mask=(rows < m_size)[:, None], other=0.0)
        part_b = tl.load(from_b, mask=(columns < n_size)[None, :], other=0.0)
        sums = tl.dot(part_a, part_b, sums)
    inside = (rows < m_size)[:, None] & (columns < n_size)[None, :]
    tl.store(d + rows[:, None] * n_size + columns[None, :], sums.to(tl.bfloat16), mask=inside)


@triton.jit
def transpose(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out = x^T, a tile a program, by tensor copies both ways."""
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    out.store([column, row], x.load([row, column]).T)


@triton.jit
def device_descriptors(x, out, rows, columns, tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out = 2 x, several tiles a program, through descriptors that the kernel itself makes."""
    source = tl.make_tensor_descriptor(x, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    target = tl.make_tensor_descriptor(out, [rows, columns], [columns, 1], [ROWS, COLUMNS])
    for i in range(tiles):
        row = (tl.program_id(0) * tiles + i) * ROWS
        target.store([row, 0], source.load([row, 0]) * 2)


@triton.jit
def histogram(x, counts, size, BLOCK: tl.constexpr, BINS: tl.constexpr):
    """How often each value occurs: a histogram a program, added up by atomics."""
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < size
    values = tl.load(x + places, mask=inside, other=0) & (BINS - 1)
    found = tl.histogram(values, BINS, mask=inside)
    tl.atomic_add(counts + tl.arange(0, BINS), found)


@triton.jit
def split_k(a, b, d, k_size, part, BLOCK: tl.constexpr, BLOCK_K: tl.constexpr):
    """d += a b^T over a part of k for each program, by atomics."""
    places = tl.arange(0, BLOCK)
    along = tl.program_id(0) * part + tl.arange(0, BLOCK_K)
    sums = tl.zeros([BLOCK, BLOCK], tl.float32)
    for k in range(0, part, BLOCK_K):
        part_a = tl.load(a + places[:, None] * k_size + (along + k)[None, :])
        part_b = tl.load(b + places[None, :] * k_size + (along + k)[:, None])
        sums = tl.dot(part_a, part_b, sums)
    tl.atomic_add(d + places[:, None] * BLOCK + places[None, :], sums, sem="relaxed")
