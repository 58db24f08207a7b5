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
// What a thread of a team of `splits` blocks has in the workspace, and where. Threads that differ only
// in the axes that are reduced hold the same, of which one writes; all of them read, each some of the
// blocks' values. Accesses begin with value `First`: ptxas has registers of one access in a row, whose
// place among four decides in which bank each is.
template <int N, bool RX, bool RY, bool RZ, int First, class T> struct ws_grid_parts {
    // A thread's values in as wide accesses as they divide into, threads side by side.
    static constexpr int bytes = sizeof(T) * N;
    static constexpr int unit = bytes % 16 == 0 ? 16 : bytes % 8 == 0 ? 8 : 4;
    static constexpr int accesses = bytes / unit;
    typedef ws_relaxed<unit> words;
    union held { T values[N]; words accessed[accesses]; };
    words* partials;
    int kept, part, parts;
    template <class Team>
    __device__ __forceinline__ ws_grid_parts(
        T* workspace, long long place, int bx, int by, int bz, Team team) {
        const int tx = team.tx(), ty = team.ty(), tz = team.tz();
        const int rx = RX ? bx : 1, ry = RY ? by : 1, rz = RZ ? bz : 1;
        parts = rx * ry * rz;
        part = (RX ? tx : 0) + rx * ((RY ? ty : 0) + ry * (RZ ? tz : 0));
        const int kx = RX ? 1 : bx, ky = RY ? 1 : by, kz = RZ ? 1 : bz;
        kept = kx * ky * kz;
        const int key = (RX ? 0 : tx) + kx * ((RY ? 0 : ty) + ky * (RZ ? 0 : tz));
        partials = (words*)workspace + place * accesses * kept + key;
    }
    __device__ __forceinline__ void write(const T (&values)[N], int split) const {
        if (part != 0) return;
        held mine;
        #pragma unroll
        for (int n = 0; n < N; ++n) mine.values[n] = values[(n + First) % N];
        #pragma unroll
        for (int i = 0; i < accesses; ++i)
            partials[((long long)split * accesses + i) * kept] = mine.accessed[i];
    }
    template <class Op>
    __device__ __forceinline__ void combine(T (&values)[N], int splits) const {
        #pragma unroll
        for (int n = 0; n < N; ++n) values[n] = Op::template identity<T>();
        #pragma unroll (accesses > 8 ? 1 : 4)
        for (int other = part; other < splits; other += parts) {
            held theirs;
            #pragma unroll
            for (int i = 0; i < accesses; ++i)
                theirs.accessed[i].load(partials + ((long long)other * accesses + i) * kept);
            #pragma unroll
            for (int n = 0; n < N; ++n) {
                T& value = values[(n + First) % N];
                value = Op::combine(value, theirs.values[n]);
            }
        }
    }
};
// Combines what teams of `splits` blocks hold, of which this is number `split`; the part of the
// first has number `place` in the workspace, and the others follow it. Values come from
// ws_block_reduce over the same axes: threads that differ only there hold the same. Returns true
// in the team that arrives last, whose threads then all have the result, and false in the others.
// The order of combining is that of `split`, whoever arrives last.
// `workspace` has grid_workspace_elements(...) elements; `semaphore` has one word a segment, 0
// before the launch and 0 again after it. Each call of a kernel needs a workspace and semaphores
// of its own. All threads of the team must call it; `splits` is the same for all.
template <class Op, int N, bool RX, bool RY, bool RZ, int First = 0, class T, class X, class Y,
          class Z, class Team = ws_whole_block>
__device__ __forceinline__ bool ws_grid_reduce(
    T (&values)[N], T* workspace, unsigned* semaphore, T* scratch, int split, int splits,
    long long place, long long segment, X bx, Y by, Z bz, Team team = {}) {
    if (splits == 1) return true;
    const ws_grid_parts<N, RX, RY, RZ, First, T> parts(workspace, place, bx, by, bz, team);
    parts.write(values, split);
    team.meet();
    const bool first = (team.tx() | team.ty() | team.tz()) == 0;
    const bool last = first && ws_arrives_last(semaphore + segment, splits);
    if (!team.meet_any(last)) return false;
    parts.template combine<Op>(values, splits);
    ws_block_reduce<Op, N, RX, RY, RZ>(values, scratch, bx, by, bz, team);
    return true;
}

//@ grid_meeting: grid_reduce
/// The first atomic operation releases what the block has written, and the load that ends the wait
/// acquires what all have. Nobody arrives a second time before all have arrived once, so the word does
/// not wrap to 0 while anybody waits.
// Waits until all `splits` blocks have come here. Each counts twice: as it arrives, and as it goes on;
// with the last one's second the counter is 0 again. All blocks must run at once.
__device__ __forceinline__ void ws_grid_meet(unsigned* counter, int splits) {
    const unsigned last = 2u * (unsigned)splits - 1u;
    unsigned there;
    asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
        : "=r"(there) : "l"(counter), "r"(last) : "memory");
    ++there;
    while (there < (unsigned)splits)
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(counter) : "memory");
    asm volatile("atom.relaxed.gpu.global.inc.u32 %0, [%1], %2;"
        : "=r"(there) : "l"(counter), "r"(last) : "memory");
}
// As ws_grid_reduce, but all teams get the result.
template <class Op, int N, bool RX, bool RY, bool RZ, class T, class X, class Y, class Z,
          class Team = ws_whole_block>
__device__ __forceinline__ void ws_grid_reduce_for_all(
    T (&values)[N], T* workspace, unsigned* semaphore, T* scratch, int split, int splits,
    long long place, long long segment, X bx, Y by, Z bz, Team team = {}) {
    if (splits == 1) return;
    const ws_grid_parts<N, RX, RY, RZ, 0, T> parts(workspace, place, bx, by, bz, team);
    parts.write(values, split);
    team.meet();
    if ((team.tx() | team.ty() | team.tz()) == 0) ws_grid_meet(semaphore + segment, splits);
    team.meet();
    parts.template combine<Op>(values, splits);
    ws_block_reduce<Op, N, RX, RY, RZ>(values, scratch, bx, by, bz, team);
}
