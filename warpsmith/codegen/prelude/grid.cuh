/// Reductions across blocks, within one launch.

//@ grid_reduce: block_reduce
/// Thread 0's atomic operation releases and acquires for the whole team: the barriers before and
/// after it make the other threads' writes and reads part of the chain that it orders. A fence beside
/// it would be a second one.
// Words that move between registers and memory in one access, at the level of the GPU: reads go
// past L1, which may hold what was there before.
template <int Bytes> struct ws_relaxed;
template <> struct alignas(4) ws_relaxed<4> {
    unsigned w[1];
    __device__ __forceinline__ void load(const void* from) {
        asm volatile("ld.relaxed.gpu.global.b32 %0, [%1];" : "=r"(w[0]) : "l"(from) : "memory");
    }
};
template <> struct alignas(8) ws_relaxed<8> {
    unsigned w[2];
    __device__ __forceinline__ void load(const void* from) {
        asm volatile("ld.relaxed.gpu.global.v2.b32 {%0, %1}, [%2];"
            : "=r"(w[0]), "=r"(w[1]) : "l"(from) : "memory");
    }
};
template <> struct alignas(16) ws_relaxed<16> {
    unsigned w[4];
    __device__ __forceinline__ void load(const void* from) {
        asm volatile("ld.relaxed.gpu.global.v4.b32 {%0, %1, %2, %3}, [%4];"
            : "=r"(w[0]), "=r"(w[1]), "=r"(w[2]), "=r"(w[3]) : "l"(from) : "memory");
    }
};
// Counts a block in, and says whether it is the last of `splits`; the counter is then 0 again.
__device__ __forceinline__ bool ws_arrives_last(unsigned* counter, int splits) {
    unsigned before;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
        : "=r"(before) : "l"(counter), "r"((unsigned)splits - 1u) : "memory");
    return before == (unsigned)splits - 1u;
}
// Combines what teams of `splits` blocks hold, of which this is number `split`. Values come from
// ws_block_reduce over the same axes: threads that differ only there hold the same. Returns true
// in the team that arrives last, whose threads then all have the result, and false in the others.
// The order of combining is that of `split`, whoever arrives last.
// `workspace` has grid_workspace_elements(...) elements; `semaphore` has one word a segment, 0
// before the launch and 0 again after it. Each call of a kernel needs a workspace and semaphores
// of its own. All threads of the team must call it; `splits` is the same for all.
template <class Op, int N, bool RX, bool RY, bool RZ, class T, class Team = ws_whole_block>
__device__ __forceinline__ bool ws_grid_reduce(
    T (&values)[N], T* workspace, unsigned* semaphore, T* scratch, int split, int splits,
    long long segment, int bx, int by, int bz, Team team = {}) {
    if (splits == 1) return true;
    const int tx = team.tx(), ty = team.ty(), tz = team.tz();
    const int rx = RX ? bx : 1, ry = RY ? by : 1, rz = RZ ? bz : 1;
    const int parts = rx * ry * rz;
    const int part = (RX ? tx : 0) + rx * ((RY ? ty : 0) + ry * (RZ ? tz : 0));
    const int kx = RX ? 1 : bx, ky = RY ? 1 : by, kz = RZ ? 1 : bz;
    const int kept = kx * ky * kz;
    const int key = (RX ? 0 : tx) + kx * ((RY ? 0 : ty) + ky * (RZ ? 0 : tz));
    // A thread's values in as wide accesses as they divide into, threads side by side.
    constexpr int bytes = sizeof(T) * N, unit = bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : 4;
    constexpr int accesses = bytes / unit;
    typedef ws_relaxed<unit> words;
    union held { T values[N]; words accessed[accesses]; };
    words* const partials = (words*)workspace + segment * splits * accesses * kept + key;
    if (part == 0) {
        held mine;
        #pragma unroll
        for (int n = 0; n < N; ++n) mine.values[n] = values[n];
        #pragma unroll
        for (int i = 0; i < accesses; ++i)
            partials[((long long)split * accesses + i) * kept] = mine.accessed[i];
    }
    team.meet();
    const bool last = (tx | ty | tz) == 0 && ws_arrives_last(semaphore + segment, splits);
    if (!team.meet_any(last)) return false;
    #pragma unroll
    for (int n = 0; n < N; ++n) values[n] = Op::template identity<T>();
    #pragma unroll (accesses > 8 ? 1 : 4)
    for (int other = part; other < splits; other += parts) {
        held theirs;
        #pragma unroll
        for (int i = 0; i < accesses; ++i)
            theirs.accessed[i].load(partials + ((long long)other * accesses + i) * kept);
        #pragma unroll
        for (int n = 0; n < N; ++n) values[n] = Op::combine(values[n], theirs.values[n]);
    }
    ws_block_reduce<Op, N, RX, RY, RZ>(values, scratch, bx, by, bz, team);
    return true;
}
