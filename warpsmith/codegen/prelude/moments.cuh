/// Means and variances of several results that are of as many elements each.

//@ block_moments: block_reduce
/// As ws_block_reduce of ws_welford triples, with the same bits; but the number is there once, so that
/// lanes exchange two words of a result, and one reciprocal serves all of them.
// Of N results of `count` elements each: means, and sums of squared distances to them.
template <int N, class T> struct ws_moments { T mean[N], m2[N], count; };
template <class T> struct alignas(2 * sizeof(T)) ws_mean_and_m2 { T mean, m2; };
// How results of so many elements join, as ws_welford_combine joins each.
template <class T> struct ws_moments_rule {
    T count, share, product;
    __device__ __forceinline__ ws_moments_rule(T a, T b) {
        count = a + b;
        share = a == (T)0 ? (T)1 : b * ws_reciprocal_of_count(count);
        product = a * share;
    }
    __device__ __forceinline__ void operator()(T& mean, T& m2, T other, T other_m2) const {
        const T delta = other - mean;
        mean = mean + delta * share;
        m2 = m2 + other_m2 + delta * (delta * product);
    }
};
// Of lanes that differ in `Bits` each gets an equal share of the `Left` results that it has, as long as
// these can be halved and `Halves` says so, and all that there are from then on. Returns the number of
// the first.
template <int Bits, int Offset, int Left, bool Halves, int N, class T>
__device__ __forceinline__ int ws_lanes_moments(
    ws_moments<N, T>& values, unsigned participants, int lane) {
    if constexpr (Offset == 0) return 0;
    else if constexpr ((Bits & Offset) == 0)
        return ws_lanes_moments<Bits, Offset / 2, Left, Halves>(values, participants, lane);
    else {
        constexpr bool halve = Halves && Left % 2 == 0;
        constexpr int half = halve ? Left / 2 : Left;
        const bool second = lane & Offset;
        const T theirs = __shfl_xor_sync(participants, values.count, Offset);
        const ws_moments_rule<T> join(second ? theirs : values.count, second ? values.count : theirs);
        #pragma unroll
        for (int n = 0; n < half; ++n) {
            constexpr int other = halve ? half : 0;
            const bool behind = halve && second;
            const T mean = behind ? values.mean[n + other] : values.mean[n];
            const T m2 = behind ? values.m2[n + other] : values.m2[n];
            const T mean_given = second ? values.mean[n] : values.mean[n + other];
            const T m2_given = second ? values.m2[n] : values.m2[n + other];
            const T mean_taken = __shfl_xor_sync(participants, mean_given, Offset);
            const T m2_taken = __shfl_xor_sync(participants, m2_given, Offset);
            values.mean[n] = second ? mean_taken : mean;
            values.m2[n] = m2;
            join(values.mean[n], values.m2[n], second ? mean : mean_taken, m2_taken);
        }
        values.count = join.count;
        const int first = halve && second ? half : 0;
        return first + ws_lanes_moments<Bits, Offset / 2, half, Halves>(values, participants, lane);
    }
}
// The bits of lanes that hold the same results behind that, and how many these are.
struct ws_moments_left { int alike, results; };
__device__ __forceinline__ constexpr ws_moments_left ws_moments_left_of(
    int bits, int results, bool halves) {
    int alike = 0;
    for (int offset = 16; offset > 0; offset /= 2) {
        if (!(bits & offset)) continue;
        if (halves && results % 2 == 0) results /= 2;
        else alike |= offset;
    }
    return {alike, results};
}
// Combines those of all threads of the block that agree on the axes that are not reduced; every thread
// gets the result. `scratch` is what ws_block_reduce has for as many triples.
template <bool RX, bool RY, bool RZ, int N, class T, class X, class Y, class Z>
__device__ __forceinline__ void ws_block_moments(
    ws_moments<N, T>& values, T* scratch, X, Y, Z) {
    constexpr int bx = X(), by = Y(), bz = Z(), threads = bx * by * bz;
    constexpr int ragged = threads % 32;  // lanes of a last warp that is not full
    constexpr ws_lane_bits axes = ws_lane_bits_of(bx, by, bz);
    constexpr int bits = (RX ? axes.x : 0) | (RY ? axes.y : 0) | (RZ ? axes.z : 0);
    constexpr int lx = axes.x + 1, ly = (axes.x | axes.y) / lx + 1;
    constexpr int lz = (axes.x | axes.y | axes.z) / (lx * ly) + 1;
    constexpr int rx = RX ? bx / lx : 1, ry = RY ? by / ly : 1, rz = RZ ? bz / lz : 1;
    constexpr int parts = rx * ry * rz;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int thread = tx + bx * (ty + by * tz), lane = thread & 31;
    constexpr bool halves = parts > 1 && ragged == 0;
    const unsigned participants =
        ragged == 0 || thread < threads - ragged ? 0xffffffffu : (1u << ragged) - 1u;
    const int first = ws_lanes_moments<bits, 16, N, halves>(values, participants, lane);
    if constexpr (parts > 1) {
        constexpr ws_moments_left left = ws_moments_left_of(bits, N, halves);
        constexpr int kx = RX ? 1 : bx, ky = RY ? 1 : by, kz = RZ ? 1 : bz, kept = kx * ky * kz;
        const int key = (RX ? 0 : tx) + kx * ((RY ? 0 : ty) + ky * (RZ ? 0 : tz));
        const int part =
            (RX ? tx / lx : 0) + rx * ((RY ? ty / ly : 0) + ry * (RZ ? tz / lz : 0));
        ws_mean_and_m2<T>* const pairs = (ws_mean_and_m2<T>*)scratch;
        T* const counts = scratch + 2 * N * parts * kept;  // of each part, and behind them of all
        __syncthreads();  // a previous call may still be reading scratch
        if ((lane & left.alike) == 0) {
            #pragma unroll
            for (int n = 0; n < left.results; ++n)
                pairs[((first + n) * parts + part) * kept + key] = {values.mean[n], values.m2[n]};
            if (first == 0) counts[part * kept + key] = values.count;
        }
        __syncthreads();
        // As many neighbouring lanes for each result as there are threads.
        constexpr int outputs = kept * N;
        constexpr int free = ragged == 0 ? threads / outputs : 1, most = free < parts ? free : parts;
        constexpr int crew =
            most >= 32 ? 32 : most >= 16 ? 16 : most >= 8 ? 8 : most >= 4 ? 4 : most >= 2 ? 2 : 1;
        const int member = thread % crew;
        #pragma unroll 1
        for (int from = 0; from < outputs; from += threads / crew) {
            const int output = from + thread / crew, n = output / kept, column = output % kept;
            ws_moments<1, T> total = {{(T)0}, {(T)0}, (T)0};
            ws_mean_and_m2<T>* const own = pairs + n * parts * kept + column;
            if (output < outputs) {
                #pragma unroll
                for (int p = member; p < parts; p += crew) {
                    const ws_moments_rule<T> join(total.count, counts[p * kept + column]);
                    const ws_mean_and_m2<T> more = own[p * kept];
                    join(total.mean[0], total.m2[0], more.mean, more.m2);
                    total.count = join.count;
                }
            }
            ws_lanes_moments<crew - 1, 16, 1, false>(total, 0xffffffffu, lane);
            if (output < outputs && member == 0) {
                *own = {total.mean[0], total.m2[0]};
                if (n == 0) counts[parts * kept + column] = total.count;
            }
        }
        __syncthreads();
        #pragma unroll
        for (int n = 0; n < N; ++n) {
            const ws_mean_and_m2<T> all = pairs[n * parts * kept + key];
            values.mean[n] = all.mean;
            values.m2[n] = all.m2;
        }
        values.count = counts[parts * kept + key];
    }
}

//@ grid_moments: block_moments, grid_meeting
/// As ws_grid_reduce_for_all. A block's record has the room of its triples: means and sums of squares
/// of each thread in accesses of 16 bytes, and then the numbers.
template <bool RX, bool RY, bool RZ, int N, class T, class X, class Y, class Z>
__device__ __forceinline__ void ws_grid_moments_for_all(
    ws_moments<N, T>& values, T* workspace, unsigned* semaphore, T* scratch, int split, int splits,
    long long place, long long segment, X bx, Y by, Z bz) {
    if (splits == 1) return;
    constexpr int accesses = 2 * N * sizeof(T) / 16, ahead = accesses > 4 ? 2 : 3;
    static_assert(N * sizeof(T) % 16 == 0, "ws_grid_moments_for_all: results go in fours");
    union held { struct { T mean[N], m2[N]; }; ws_relaxed<16> accessed[accesses]; };
    constexpr int rx = RX ? X() : 1, ry = RY ? Y() : 1, parts = rx * ry * (RZ ? Z() : 1);
    constexpr int kx = RX ? 1 : X(), ky = RY ? 1 : Y(), kept = kx * ky * (RZ ? 1 : Z());
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int part = (RX ? tx : 0) + rx * ((RY ? ty : 0) + ry * (RZ ? tz : 0));
    const int key = (RX ? 0 : tx) + kx * ((RY ? 0 : ty) + ky * (RZ ? 0 : tz));
    constexpr int record = 3 * N * kept;
    T* const records = workspace + place * record;
    ws_relaxed<16>* const words = (ws_relaxed<16>*)records + key;
    T* const counts = records + 2 * N * kept + key;
    if (part == 0) {
        held mine;
        #pragma unroll
        for (int n = 0; n < N; ++n) mine.mean[n] = values.mean[n], mine.m2[n] = values.m2[n];
        #pragma unroll
        for (int i = 0; i < accesses; ++i)
            words[(long long)split * (record * (int)sizeof(T) / 16) + i * kept] = mine.accessed[i];
        counts[(long long)split * record] = values.count;
    }
    __syncthreads();
    if ((tx | ty | tz) == 0) ws_grid_meet(semaphore + segment, splits);
    __syncthreads();
    values = {};
    #pragma unroll 1
    for (int other = part; other < splits; other += ahead * parts) {
        held theirs[ahead];
        ws_relaxed<sizeof(T)> number[ahead];
        #pragma unroll
        for (int k = 0; k < ahead; ++k)
            if (other + k * parts < splits) {
                const long long block = other + k * parts;
                #pragma unroll
                for (int i = 0; i < accesses; ++i)
                    theirs[k].accessed[i].load(
                        words + block * (record * (int)sizeof(T) / 16) + i * kept);
                number[k].load(counts + block * record);
            }
        #pragma unroll
        for (int k = 0; k < ahead; ++k)
            if (other + k * parts < splits) {
                union { ws_relaxed<sizeof(T)> words; T value; } count = {number[k]};
                const ws_moments_rule<T> join(values.count, count.value);
                #pragma unroll
                for (int n = 0; n < N; ++n)
                    join(values.mean[n], values.m2[n], theirs[k].mean[n], theirs[k].m2[n]);
                values.count = join.count;
            }
    }
    ws_block_moments<RX, RY, RZ>(values, scratch, bx, by, bz);
}
