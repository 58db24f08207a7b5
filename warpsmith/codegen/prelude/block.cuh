/// Reductions across the threads of a warp, and of a block or a group of a role.

//@ warp_reduce: welford
template <class T>
__device__ __forceinline__ T ws_shuffle_xor(T value, int offset, unsigned participants) {
    return __shfl_xor_sync(participants, value, offset);
}
template <class T>
__device__ __forceinline__ ws_welford<T> ws_shuffle_xor(
    ws_welford<T> value, int offset, unsigned participants) {
    return {__shfl_xor_sync(participants, value.mean, offset),
            __shfl_xor_sync(participants, value.m2, offset),
            __shfl_xor_sync(participants, value.count, offset)};
}
// What two lanes that exchange values both get, bit for bit the same; `second`: this lane's value
// comes second.
template <class Op, class T>
__device__ __forceinline__ T ws_exchange(T mine, T other, bool second) {
    return Op::combine(mine, other);  // combine(a, b) has the bits of combine(b, a)
}
template <class Op, class T>
__device__ __forceinline__ ws_welford<T> ws_exchange(
    ws_welford<T> mine, ws_welford<T> other, bool second) {
    // Selects, since a branch would have every warp go both ways; m2 enters as a sum of both.
    const ws_welford<T> a = {second ? other.mean : mine.mean, mine.m2,
                             second ? other.count : mine.count};
    const ws_welford<T> b = {second ? mine.mean : other.mean, other.m2,
                             second ? mine.count : other.count};
    return Op::combine(a, b);
}
// Combines the values of all lanes whose numbers differ only in `lane_bits`; each gets the result,
// bit for bit the same.
template <class Op, int N, class T>
__device__ __forceinline__ void ws_warp_reduce(
    T (&values)[N], int lane_bits, unsigned participants, int lane) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset /= 2) {
        if (!(lane_bits & offset)) continue;
        #pragma unroll
        for (int n = 0; n < N; ++n) {
            const T other = ws_shuffle_xor(values[n], offset, participants);
            values[n] = ws_exchange<Op>(values[n], other, lane & offset);
        }
    }
}

//@ block_reduce: warp_reduce
/// Sizes of the shared-memory stage, chosen so that no thread reads a long row alone:
/// up to 8 partials each thread combines for itself (saves a barrier), up to 32 a crew of lanes
/// combines for all, and more are halved first. Extents come as types, so that NVRTC has one of
/// these to compile, not all: a norm's gradient took it a tenth longer.
// A number that a function knows by its argument's type.
template <int N> struct ws_int {
    __device__ __forceinline__ constexpr operator int() const { return N; }
};
// Which bits of a lane's number count along each axis of the block. Bits above a ragged extent
// belong to no axis.
struct ws_lane_bits { int x, y, z; };
__device__ __forceinline__ constexpr bool ws_power_of_two(int n) { return (n & (n - 1)) == 0; }
__device__ __forceinline__ constexpr ws_lane_bits ws_lane_bits_of(int bx, int by, int bz) {
    if (bx % 32 == 0) return {31, 0, 0};
    if (bx > 32 || !ws_power_of_two(bx)) return {0, 0, 0};
    const int x = bx - 1;
    if (by % (32 / bx) == 0) return {x, 31 & ~x, 0};
    if (!ws_power_of_two(by)) return {x, 0, 0};
    const int xy = bx * by - 1;
    if (bz % (32 / (bx * by)) == 0) return {x, xy & ~x, 31 & ~xy};
    return {x, xy & ~x, ws_power_of_two(bz) ? (bx * by * bz - 1) & ~xy : 0};
}
// How N values may be combined: by lanes of a warp for all of them, or in shares; and what warps
// have left by who gets the result alone, by every warp, or in columns of shared memory.
struct ws_ways { bool lanes, shares, alone, warps, columns; };
template <int N, bool RX, bool RY, bool RZ, bool First>
__device__ __forceinline__ constexpr ws_ways ws_ways_of(int bx, int by, int bz) {
    if (bx * by * bz == 0) return {true, true, First, true, true};  // an extent is unknown
    const ws_lane_bits axes = ws_lane_bits_of(bx, by, bz);
    const int lx = axes.x + 1, ly = (axes.x | axes.y) / lx + 1;
    const int lz = (axes.x | axes.y | axes.z) / (lx * ly) + 1;
    const int lanes = (RX ? lx : 1) * (RY ? ly : 1) * (RZ ? lz : 1);
    const int parts = (RX ? bx / lx : 1) * (RY ? by / ly : 1) * (RZ ? bz / lz : 1);
    const bool alone = First && lanes < 32 && parts <= 8, more = parts > 1 && !alone;
    const bool shares = more && N % lanes == 0 && bx * by * bz % 32 == 0;
    return {lanes > 1 && !shares, lanes > 1 && shares, parts > 1 && alone, more && lanes == 32,
            more && lanes < 32};
}
// All threads of the block: a team says where a thread stands in it, and how its threads meet.
struct ws_whole_block {
    __device__ __forceinline__ int tx() const { return threadIdx.x; }
    __device__ __forceinline__ int ty() const { return threadIdx.y; }
    __device__ __forceinline__ int tz() const { return threadIdx.z; }
    __device__ __forceinline__ void meet() const { __syncthreads(); }
    __device__ __forceinline__ bool meet_any(bool mine) const { return __syncthreads_or(mine); }
};
// The values of one of `places` threads, as it puts them into shared memory and another takes them
// from there: words go in fours.
template <class T> struct alignas(16) ws_four { T v[4]; };
template <int N, class T>
__device__ __forceinline__ void ws_put(T* scratch, const T (&values)[N], int place, int places) {
    if constexpr (N % 4 == 0 && sizeof(T) == 4) {
        #pragma unroll
        for (int n = 0; n < N; n += 4)
            ((ws_four<T>*)scratch)[n / 4 * places + place] =
                {{values[n], values[n + 1], values[n + 2], values[n + 3]}};
    } else {
        #pragma unroll
        for (int n = 0; n < N; ++n) scratch[n * places + place] = values[n];
    }
}
template <int N, class T>
__device__ __forceinline__ void ws_take(const T* scratch, T (&values)[N], int place, int places) {
    if constexpr (N % 4 == 0 && sizeof(T) == 4) {
        #pragma unroll
        for (int n = 0; n < N; n += 4) {
            const ws_four<T> four = ((const ws_four<T>*)scratch)[n / 4 * places + place];
            #pragma unroll
            for (int k = 0; k < 4; ++k) values[n + k] = four.v[k];
        }
    } else {
        #pragma unroll
        for (int n = 0; n < N; ++n) values[n] = scratch[n * places + place];
    }
}
// As ws_warp_reduce, but of lanes that differ in `lane_bits` each gets an equal share of the values,
// which stand first, and returns the number of the first of them: in each step two lanes give each
// other half of the `Left` that they have.
template <class Op, int Left, int Offset, int N, class T>
__device__ __forceinline__ int ws_warp_share(T (&values)[N], int lane_bits, int lane) {
    if constexpr (Offset == 0) return 0;
    else {
        if constexpr (Left % 2 == 0)
            if (lane_bits & Offset) {
                constexpr int half = Left / 2;
                const bool second = lane & Offset;
                #pragma unroll
                for (int n = 0; n < half; ++n) {
                    const T theirs = second ? values[n] : values[n + half];
                    const T mine = second ? values[n + half] : values[n];
                    const T other = ws_shuffle_xor(theirs, Offset, 0xffffffffu);
                    values[n] = ws_exchange<Op>(mine, other, second);
                }
                const int first = second ? half : 0;
                return first + ws_warp_share<Op, half, Offset / 2>(values, lane_bits, lane);
            }
        return ws_warp_share<Op, Left, Offset / 2>(values, lane_bits, lane);
    }
}
// Combines the values of all threads of the team that agree on the axes that are not reduced;
// every thread gets the result, or with `First` those at 0 along the axes that are. All threads of
// the team must call it. The order of combining is fixed. `scratch` has block_reduce_scratch(...)
// elements, from a multiple of 16 bytes on; the team's next call may have the same ones without a
// barrier between, and any other use of them needs a barrier. `Fresh`: no thread of the team reads
// them any more, and the next call has others.
template <class Op, int N, bool RX, bool RY, bool RZ, bool Fresh = false, bool First = false,
          class T, class X, class Y, class Z, class Team = ws_whole_block>
__device__ __forceinline__ void ws_block_reduce(
    T (&values)[N], T* scratch, X bx, Y by, Z bz, Team team = {}) {
    constexpr ws_ways may = ws_ways_of<N, RX, RY, RZ, First>(X(), Y(), Z());
    const int tx = team.tx(), ty = team.ty(), tz = team.tz();
    const int threads = bx * by * bz, thread = tx + bx * (ty + by * tz), lane = thread & 31;
    const ws_lane_bits axes = ws_lane_bits_of(bx, by, bz);
    const int bits = (RX ? axes.x : 0) | (RY ? axes.y : 0) | (RZ ? axes.z : 0);
    const int ragged = threads & 31;  // lanes of a last warp that is not full
    const unsigned participants =
        ragged == 0 || thread < threads - ragged ? 0xffffffffu : (1u << ragged) - 1u;

    // Partial results that are left for each coordinate of the kept axes, and this thread's.
    const int sx = __popc(axes.x), sy = __popc(axes.y), sz = __popc(axes.z);
    const int rx = RX ? bx >> sx : 1, ry = RY ? by >> sy : 1, rz = RZ ? bz >> sz : 1;
    const int parts = rx * ry * rz, alike = 1 << __popc(bits);
    const bool first_alone = First && bits != 31 && parts <= 8;
    const bool shares = N % alike == 0 && ragged == 0 && parts > 1 && !first_alone;
    int first = 0;
    if constexpr (may.shares) if (shares) first = ws_warp_share<Op, N, 16>(values, bits, lane);
    if constexpr (may.lanes) if (!shares) ws_warp_reduce<Op>(values, bits, participants, lane);
    if (parts == 1) return;
    const int part = (RX ? tx >> sx : 0) + rx * ((RY ? ty >> sy : 0) + ry * (RZ ? tz >> sz : 0));
    const int kx = RX ? 1 : bx, ky = RY ? 1 : by, kz = RZ ? 1 : bz;
    const int kept = kx * ky * kz;
    const int key = (RX ? 0 : tx) + kx * ((RY ? 0 : ty) + ky * (RZ ? 0 : tz));
    const bool leads = (lane & bits) == 0;

    if (!Fresh) team.meet();  // a previous call may still be reading scratch
    if constexpr (may.alone) if (first_alone) {  // who gets the result combines all parts
        if (leads && part > 0) ws_put(scratch, values, part * kept + key, parts * kept);
        team.meet();
        if (leads && part == 0) {
            #pragma unroll
            for (int p = 1; p < parts; ++p) {
                T other[N];
                ws_take(scratch, other, p * kept + key, parts * kept);
                #pragma unroll
                for (int n = 0; n < N; ++n) values[n] = Op::combine(values[n], other[n]);
            }
        }
        return;
    }
    if constexpr (may.warps || may.columns) {
        if (shares || leads) {
            #pragma unroll
            for (int n = 0; n < N; ++n) {
                if (shares && n >= N / alike) break;
                scratch[((first + n) * parts + part) * kept + key] = values[n];
            }
        }
        team.meet();
    }
    if constexpr (may.warps) if (bits == 31) {  // one part a warp: every warp combines them again
        int width = 1;
        while (width < parts) width *= 2;
        const int mine = lane & (width - 1);
        #pragma unroll
        for (int n = 0; n < N; ++n)
            values[n] = mine < parts ? scratch[(n * parts + mine) * kept + key]
                                     : Op::template identity<T>();
        ws_warp_reduce<Op>(values, width - 1, 0xffffffffu, lane);
        return;
    }
    if constexpr (may.columns) {
        int live = parts;
        while (live > 32) {
            const int half = (live + 1) / 2;
            if (leads && part + half < live) {
                #pragma unroll
                for (int n = 0; n < N; ++n) {
                    T* stage = scratch + (n * parts + part) * kept + key;
                    *stage = Op::combine(*stage, stage[half * kept]);
                }
            }
            team.meet();
            live = half;
        }
        if (live * N > 8) {
            // As many neighbouring lanes for each result as there are threads.
            int crew = 1;
            if (ragged == 0)
                while (crew < 32 && crew < live && 2 * crew * kept * N <= threads) crew *= 2;
            const int member = thread & (crew - 1);
            for (int first = 0; first < kept * N; first += threads / crew) {
                const int output = first + thread / crew, n = output / kept;
                T* column = scratch + n * parts * kept + (output - n * kept);
                T total[1] = {Op::template identity<T>()};
                if (output < kept * N && member < live) {
                    total[0] = column[member * kept];
                    for (int p = member + crew; p < live; p += crew)
                        total[0] = Op::combine(total[0], column[p * kept]);
                }
                if (crew > 1) ws_warp_reduce<Op>(total, crew - 1, 0xffffffffu, lane);
                if (output < kept * N && member == 0) *column = total[0];
            }
            team.meet();
            live = 1;
        }
        #pragma unroll
        for (int n = 0; n < N; ++n) {
            const T* column = scratch + n * parts * kept + key;
            values[n] = *column;
            for (int p = 1; p < live; ++p) values[n] = Op::combine(values[n], column[p * kept]);
        }
    }
}
