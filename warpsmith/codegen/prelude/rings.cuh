/// Barriers in shared memory, asynchronous copies, and the one thread that asks for them.

//@ address
__device__ __forceinline__ unsigned ws_address(const void* shared) {
    return (unsigned)__cvta_generic_to_shared(shared);
}
__device__ __forceinline__ int ws_thread() {
    return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
__device__ __forceinline__ int ws_threads() { return blockDim.x * blockDim.y * blockDim.z; }

//@ elect: address
// True in one thread of each warp. All warps elect, with a constant mask, before any branch: then
// ptxas knows that one lane is active where a copy stands.
__device__ __forceinline__ bool ws_elect_lane() {
    unsigned elected;
    asm volatile("{ .reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p; }"
                 : "=r"(elected) :: "memory");
    return elected != 0;
}
// True in the first warp of the block. All lanes read it from one of them, so that ptxas knows
// that they agree, and that a branch by it is taken by whole warps.
__device__ __forceinline__ bool ws_first_warp() {
    return __shfl_sync(0xffffffffu, (unsigned)ws_thread() / 32, 0) == 0;
}

//@ barrier: address
// Barriers count arrivals and bytes; a phase ends when all that is expected has come.
__device__ __forceinline__ void ws_barrier_init(long long* barrier, int stages, int arrivals) {
    for (int s = 0; s < stages; ++s)
        asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                     :: "r"(ws_address(barrier + s)), "r"(arrivals) : "memory");
}
// The memory may serve for something else, once threads have met.
__device__ __forceinline__ void ws_barrier_end(long long* barrier, int stages) {
    for (int s = 0; s < stages; ++s)
        asm volatile("mbarrier.inval.shared::cta.b64 [%0];"
                     :: "r"(ws_address(barrier + s)) : "memory");
}
// What was initialized is there for the TMA unit too.
__device__ __forceinline__ void ws_barriers_ready() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
// With `mine` a whole warp comes to a call, and the lane in which it is true does what it says.
__device__ __forceinline__ void ws_barrier_expect(
    long long* barrier, int bytes, bool mine = true) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0;"
                 " @p mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1; }"
                 :: "r"(ws_address(barrier)), "r"(bytes), "r"((unsigned)mine) : "memory");
}
__device__ __forceinline__ void ws_barrier_arrive_expect(
    long long* barrier, int bytes, bool mine = true) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %2, 0;"
                 " @p mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1; }"
                 :: "r"(ws_address(barrier)), "r"(bytes), "r"((unsigned)mine) : "memory");
}
__device__ __forceinline__ void ws_barrier_wait(long long* barrier, int parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(ws_address(barrier)), "r"(parity) : "memory");
}
__device__ __forceinline__ void ws_barrier_arrive(long long* barrier, bool mine = true) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0;"
                 " @p mbarrier.arrive.shared::cta.b64 _, [%0]; }"
                 :: "r"(ws_address(barrier)), "r"((unsigned)mine) : "memory");
}
// One arrival for all threads of a warp, after what they did to a stage; `thread` counts threads
// from the start of some warp.
__device__ __forceinline__ void ws_barrier_release(long long* barrier, int thread) {
    __syncwarp();
    if (thread % 32 == 0) ws_barrier_arrive(barrier);
}
__device__ __forceinline__ void ws_barrier_release(long long* barrier) {
    ws_barrier_release(barrier, ws_thread());
}

//@ clock
__device__ __forceinline__ unsigned long long ws_nanoseconds() {
    unsigned long long time;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time) :: "memory");
    return time;
}
// Until `times` times so many nanoseconds are over since the clock `began`.
__device__ __forceinline__ void ws_await_clock(
    unsigned long long began, long long times, long long nanoseconds) {
    while ((long long)(ws_nanoseconds() - began) < times * nanoseconds) {}
}

//@ watchdog: barrier, clock
// What the first wait that is given up tells the host, in memory of the host.
struct ws_watchdog_record {
    unsigned long long waited;
    int written, site, stage, parity, x, y, z, thread;
};
__device__ ws_watchdog_record* ws_watchdog;
__device__ unsigned ws_watchdog_claimed;
// Ends the launch, with a record where the host asked for one; only the first call does anything.
__device__ __forceinline__ void ws_hang(
    int site, int stage, int parity, unsigned long long waited) {
    if (atomicExch(&ws_watchdog_claimed, 1u)) return;
    if (volatile ws_watchdog_record* record = ws_watchdog) {
        record->waited = waited;
        record->site = site;
        record->stage = stage;
        record->parity = parity;
        record->x = blockIdx.x;
        record->y = blockIdx.y;
        record->z = blockIdx.z;
        record->thread = ws_thread();
        __threadfence_system();
        record->written = 1;
        __threadfence_system();
    }
    asm volatile("trap;");
}
// Looks again after a microsecond or so: of waits that hang, an early one is then given up first.
__device__ __forceinline__ bool ws_barrier_over(long long* barrier, int parity) {
    unsigned over;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 1000;"
                 " selp.u32 %0, 1, 0, p; }"
                 : "=r"(over) : "r"(ws_address(barrier)), "r"(parity) : "memory");
    return over;
}
// A wait that ends the launch after so many nanoseconds.
__device__ __forceinline__ void ws_barrier_wait(
    long long* barrier, int parity, int site, int stage, unsigned long long limit) {
    if (ws_barrier_over(barrier, parity)) return;
    const unsigned long long start = ws_nanoseconds();
    while (!ws_barrier_over(barrier, parity)) {
        const unsigned long long waited = ws_nanoseconds() - start;
        if (waited > limit) ws_hang(site, stage, parity, waited);
    }
}

//@ cp_async: address
template <int Bytes>
__device__ __forceinline__ void ws_cp_async(void* to, const void* from) {
    if constexpr (Bytes == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;"
                     :: "r"(ws_address(to)), "l"(from) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                     :: "r"(ws_address(to)), "l"(from), "n"(Bytes) : "memory");
}
__device__ __forceinline__ void ws_cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
template <int Pending>
__device__ __forceinline__ void ws_cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(Pending) : "memory");
}

//@ cp_async_or_zeros: cp_async
// The same, or zeros, for which nothing is read.
template <int Bytes>
__device__ __forceinline__ void ws_cp_async_or_zeros(void* to, const void* from, bool inside) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :: "r"(ws_address(to)), "l"(from), "n"(Bytes), "r"(inside ? Bytes : 0)
                 : "memory");
}

//@ word_anywhere
// Up to four bytes that begin anywhere, of the one or two aligned words that they lie in.
__device__ __forceinline__ unsigned ws_word_anywhere(const void* from, int bytes) {
    const unsigned begun = (unsigned)(unsigned long long)from & 3;
    const unsigned* const first = (const unsigned*)((const char*)from - begun);
    const unsigned low = *first, high = begun + bytes > 4 ? first[1] : 0;
    return __funnelshift_r(low, high, 8 * begun);
}

//@ bulk: address
// Contiguous bytes, a multiple of 16, at addresses that are. With `mine` a whole warp comes to a
// call, and the lane in which it is true asks. What is `Lasting` is the last to go from the L2.
template <bool Lasting = false>
__device__ __forceinline__ void ws_bulk_load(
    void* to, const void* from, int bytes, long long* barrier, bool mine = true) {
    if constexpr (Lasting) {
        asm volatile("{ .reg .pred p; .reg .b64 policy; setp.ne.u32 p, %4, 0;"
                     " createpolicy.fractional.L2::evict_last.b64 policy;"
                     " @p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                     ".L2::cache_hint [%0], [%1], %2, [%3], policy; }"
                     :: "r"(ws_address(to)), "l"(from), "r"(bytes), "r"(ws_address(barrier)),
                        "r"((unsigned)mine) : "memory");
        return;
    }
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %4, 0;"
                 " @p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 " [%0], [%1], %2, [%3]; }"
                 :: "r"(ws_address(to)), "l"(from), "r"(bytes), "r"(ws_address(barrier)),
                    "r"((unsigned)mine) : "memory");
}
__device__ __forceinline__ void ws_bulk_store(
    void* to, const void* from, int bytes, bool mine = true) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %3, 0;"
                 " @p cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2; }"
                 :: "l"(to), "r"(ws_address(from)), "r"(bytes), "r"((unsigned)mine) : "memory");
}

//@ bulk_load_once: bulk
// What is loaded once, and is the first to go from the L2.
__device__ __forceinline__ void ws_bulk_load_once(
    void* to, const void* from, int bytes, long long* barrier, bool mine = true) {
    asm volatile("{ .reg .pred p; .reg .b64 policy; setp.ne.u32 p, %4, 0;"
                 " createpolicy.fractional.L2::evict_first.b64 policy;"
                 " @p cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
                 ".L2::cache_hint [%0], [%1], %2, [%3], policy; }"
                 :: "r"(ws_address(to)), "l"(from), "r"(bytes), "r"(ws_address(barrier)),
                    "r"((unsigned)mine) : "memory");
}

//@ bulk_groups
__device__ __forceinline__ void ws_bulk_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until all but so many of this thread's stores have read what they store.
template <int Pending>
__device__ __forceinline__ void ws_bulk_wait() {
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(Pending) : "memory");
}
// What this thread wrote to shared memory is there for the TMA unit, once threads have met.
__device__ __forceinline__ void ws_fence_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

//@ tensor: address
/// Loads and stores of boxes.
struct alignas(64) ws_tensor_map { unsigned long long opaque[16]; };
// With `mine` a whole warp comes to a call, and the lane in which it is true asks.
//@ each rank
__device__ __forceinline__ void ws_tensor_load(
    void* to, const ws_tensor_map& map, long long* barrier, PLACE, bool mine = true) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %BEHIND_3, 0;"
                 " @p cp.async.bulk.tensor.RANKd.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {FROM_3}], [%2]; }"
                 :: "r"(ws_address(to)), "l"(&map), "r"(ws_address(barrier)), OPERANDS,
                    "r"((unsigned)mine) : "memory");
}
__device__ __forceinline__ void ws_tensor_store(
    const ws_tensor_map& map, const void* from, PLACE, bool mine = true) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %BEHIND_2, 0;"
                 " @p cp.async.bulk.tensor.RANKd.global.shared::cta.tile.bulk_group"
                 " [%0, {FROM_2}], [%1]; }"
                 :: "l"(&map), "r"(ws_address(from)), OPERANDS,
                    "r"((unsigned)mine) : "memory");
}

//@ tensor_load_once: tensor
/// Loads of boxes whose memory nobody else reads: it is the first to go from the L2.
//@ each rank
__device__ __forceinline__ void ws_tensor_load_once(
    void* to, const ws_tensor_map& map, long long* barrier, PLACE, bool mine = true) {
    asm volatile("{ .reg .pred p; .reg .b64 policy; setp.ne.u32 p, %BEHIND_3, 0;"
                 " createpolicy.fractional.L2::evict_first.b64 policy;"
                 " @p cp.async.bulk.tensor.RANKd.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.L2::cache_hint"
                 " [%0], [%1, {FROM_3}], [%2], policy; }"
                 :: "r"(ws_address(to)), "l"(&map), "r"(ws_address(barrier)), OPERANDS,
                    "r"((unsigned)mine) : "memory");
}

//@ prefetch: tensor
/// Boxes that come to the L2.
//@ each rank
__device__ __forceinline__ void ws_tensor_prefetch(const ws_tensor_map& map, PLACE) {
    asm volatile("cp.async.bulk.prefetch.tensor.RANKd.L2.global.tile [%0, {FROM_1}];"
                 :: "l"(&map), OPERANDS : "memory");
}
