/// Scans: of a thread's elements, and across the threads of a block.

//@ scan: welford, reduce_ops, block_reduce
// Lane `lane`'s value.
template <class T> __device__ __forceinline__ T ws_shuffle(T value, int lane) {
    return __shfl_sync(0xffffffffu, value, lane);
}
template <class T>
__device__ __forceinline__ ws_welford<T> ws_shuffle(ws_welford<T> value, int lane) {
    return {ws_shuffle(value.mean, lane), ws_shuffle(value.m2, lane),
            ws_shuffle(value.count, lane)};
}
// The state of what was scanned first and of what was scanned then, which lies before it if scans
// come from the end.
template <class Op, bool Reverse, class T>
__device__ __forceinline__ T ws_scanned(T first, T then) {
    return Reverse ? Op::combine(then, first) : Op::combine(first, then);
}
// Replaces each value by the state of all up to it; `running` has what came before, and then all.
template <class Op, bool Exclusive, bool Reverse, int N, class T>
__device__ __forceinline__ void ws_thread_scan(T (&values)[N], T& running) {
    #pragma unroll
    for (int n = 0; n < N; ++n) {
        T& value = values[Reverse ? N - 1 - n : n];
        const T next = ws_scanned<Op, Reverse>(running, value);
        value = Exclusive ? running : next;
        running = next;
    }
}
// The same of the values of threads side by side along one axis of the team, apart for each
// coordinate of the others. They lie so in turns, each with an equal part of a thread's values. In
// each turn a thread scans its own, then the lanes of a warp what these come to, if whole warps lie
// along x; then every thread joins what the warps, or the threads, before its own come to. All
// threads of the team must call it. The order of joining is fixed.
// `scratch` has block_scan_scratch(...) elements a turn.
template <class Op, bool RX, bool RY, bool RZ, bool Exclusive, bool Reverse, int Turns = 1, int N,
          class T, class Team = ws_whole_block>
__device__ __forceinline__ void ws_block_scan(
    T (&values)[N], T& running, T* scratch, int bx, int by, int bz, Team team = {}) {
    constexpr int each = N / Turns;
    const int tx = team.tx(), ty = team.ty(), tz = team.tz();
    const bool warps = RX && bx % 32 == 0;
    const int lane = tx & 31, place = Reverse ? 31 - lane : lane;
    T own[Turns], before[Turns];
    #pragma unroll
    for (int turn = 0; turn < Turns; ++turn) {
        own[turn] = before[turn] = Op::template identity<T>();
        auto& part = reinterpret_cast<T (&)[each]>(values[turn * each]);
        ws_thread_scan<Op, Exclusive, Reverse>(part, own[turn]);
        if (!warps) continue;
        #pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const T other = ws_shuffle(own[turn], (Reverse ? lane + offset : lane - offset) & 31);
            if (place >= offset) own[turn] = ws_scanned<Op, Reverse>(other, own[turn]);
        }
        const T other = ws_shuffle(own[turn], (Reverse ? lane + 1 : lane - 1) & 31);
        if (place > 0) before[turn] = other;
        own[turn] = ws_shuffle(own[turn], Reverse ? 0 : 31);
    }
    const int share = warps ? 32 : 1;
    const int parts = (RX ? bx : RY ? by : bz) / share, part = (RX ? tx : RY ? ty : tz) / share;
    const int kx = RX ? 1 : bx, ky = RY ? 1 : by, kept = kx * ky * (RZ ? 1 : bz);
    const int key = (RX ? 0 : tx) + kx * ((RY ? 0 : ty) + ky * (RZ ? 0 : tz));
    if (parts > 1) {
        team.meet();  // a previous call may still be reading scratch
        #pragma unroll
        for (int turn = 0; turn < Turns; ++turn)
            if (!warps || lane == 0) scratch[(turn * parts + part) * kept + key] = own[turn];
        team.meet();
    }
    #pragma unroll
    for (int t = 0; t < Turns; ++t) {
        const int turn = Reverse ? Turns - 1 - t : t;
        T all = own[turn];
        if (parts > 1) {
            T earlier = Op::template identity<T>();
            all = Op::template identity<T>();
            for (int p = 0; p < parts; ++p) {
                const int other = Reverse ? parts - 1 - p : p;
                if (other == part) earlier = all;
                all = ws_scanned<Op, Reverse>(all, scratch[(turn * parts + other) * kept + key]);
            }
            before[turn] = ws_scanned<Op, Reverse>(earlier, before[turn]);
        }
        before[turn] = ws_scanned<Op, Reverse>(running, before[turn]);
        #pragma unroll
        for (int n = turn * each; n < turn * each + each; ++n)
            values[n] = ws_scanned<Op, Reverse>(before[turn], values[n]);
        running = ws_scanned<Op, Reverse>(running, all);
    }
}

//@ grid_scan: scan, grid_reduce
/// The thread that releases a word has written the states, or has met those that have; who reads a
/// state has acquired its word. Who resets words has counted in all blocks of the row, by atomics
/// that release what they have read and acquire what those before them have.
// Waits until a block has given what this word stands for.
__device__ __forceinline__ void ws_await(const unsigned* word) {
    unsigned there;
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(there) : "l"(word) : "memory");
    } while (there == 0);
}
template <class T> __device__ __forceinline__ T ws_given(const T* place) {
    constexpr int unit = sizeof(T) % 16 == 0 ? 16 : sizeof(T) % 8 == 0 ? 8 : 4;
    union { T state; ws_relaxed<unit> accessed[sizeof(T) / unit]; };
    #pragma unroll
    for (int i = 0; i < (int)(sizeof(T) / unit); ++i)
        accessed[i].load((const ws_relaxed<unit>*)place + i);
    return state;
}
// Puts what the blocks before this one come to before each value, each of which is the state of
// what this block scanned before it. `running` has what all of this block comes to, and then what
// they all do; apart for each coordinate of the axes that are not scanned.
// Blocks have numbers: of `parts` in a row that share a row, the first one first. A block may come
// here only when all with lower numbers run or are done. They are in groups of as many as a block
// waits for at once, a thread each. Place `p` of a row's states is for what block `p - 1` comes to,
// or, if a group begins at `p`, what all before it do. So a block reads the places of its group up
// to its own, and waits for the group before at the first of them. A thread joins `reach` of them.
// The order of joining is fixed. `words`, one a block, are 0 before the launch and after it.
template <class Op, bool RX, bool RY, bool RZ, bool Reverse, int N, class T>
__device__ __forceinline__ void ws_grid_scan(
    T (&values)[N], T& running, T* scratch, T* states, unsigned* words, int number, int parts,
    int bx, int by, int bz) {
    if (parts == 1) return;
    const int tx = threadIdx.x, ty = threadIdx.y, tz = threadIdx.z;
    const int threads = RX ? bx : RY ? by : bz, thread = RX ? tx : RY ? ty : tz;
    const int kx = RX ? 1 : bx, ky = RY ? 1 : by, kept = kx * ky * (RZ ? 1 : bz);
    const int key = (RX ? 0 : tx) + kx * ((RY ? 0 : ty) + ky * (RZ ? 0 : tz));
    const int place = Reverse ? threads - 1 - thread : thread, lane = tx + bx * (ty + by * tz);
    const int reach = kept < 16 ? kept : 16, group = threads * reach;
    const int part = number % parts, row = number - part, inside = part % group;
    const bool ends = inside == group - 1, gives = part + 1 < parts;
    states += (long long)row * kept + key;
    words += row;
    const auto give = [&]() {
        if (place == 0) states[(long long)(part + 1) * kept] = running;
        if (kept > 1) __syncthreads();
        if (place == 0 && key == 0)
            asm volatile("st.release.gpu.global.u32 [%0], %1;"
                :: "l"(words + part + 1), "r"(1u) : "memory");
    };
    if (gives && !ends) give();
    const int first = part - inside, own = kept > 1 ? lane : place;
    if (own <= inside && first + own > 0) ws_await(words + first + own);
    if (kept > 1) __syncthreads();
    T theirs[1] = {Op::template identity<T>()};
    #pragma unroll
    for (int r = 0; r < reach; ++r) {
        const int p = place * reach + r;
        if (p > inside || first + p == 0) continue;
        const T other = ws_given(states + (long long)(first + p) * kept);
        theirs[0] = ws_scanned<Op, Reverse>(theirs[0], other);
    }
    T before = Op::template identity<T>();
    ws_block_scan<Op, RX, RY, RZ, false, Reverse>(theirs, before, scratch, bx, by, bz);
    running = ws_scanned<Op, Reverse>(before, running);
    if (gives && ends) give();
    #pragma unroll
    for (int n = 0; n < N; ++n) values[n] = ws_scanned<Op, Reverse>(before, values[n]);
    // Word 0 counts the blocks that wait no more; the first warp of the last one resets all. It has
    // met the others since they waited, above or in the scan, if there are any.
    if (lane >= 32) return;
    __syncwarp();
    const bool last = __any_sync(0xffffffffu, lane == 0 && ws_arrives_last(words, parts));
    __syncwarp();
    const int lanes = min(bx * by * bz, 32);
    if (last)
        for (int p = 1 + lane; p < parts; p += lanes) words[p] = 0;
}
