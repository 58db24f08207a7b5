/// Clusters: how blocks meet, and reach each other's shared memory.

//@ cluster: address
__device__ __forceinline__ int ws_cluster_rank() {
    unsigned rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
// All threads of all blocks of the cluster.
__device__ __forceinline__ void ws_cluster_meet() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// They let each other know that they have started, and order nothing by that.
__device__ __forceinline__ void ws_cluster_started() {
    __syncwarp();
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
__device__ __forceinline__ void ws_cluster_await_start() {
    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// What this thread wrote to their shared memory is there for their TMA units and tensor cores, once
// they have met.
__device__ __forceinline__ void ws_cluster_fence_async() {
    asm volatile("fence.proxy.async.shared::cluster;" ::: "memory");
}
// Where the block of that rank has what this block has there.
__device__ __forceinline__ unsigned ws_remote(const void* shared, int rank) {
    unsigned place;
    asm("mapa.shared::cluster.u32 %0, %1, %2;"
        : "=r"(place) : "r"(ws_address(shared)), "r"(rank));
    return place;
}

//@ remote_async: cluster
/// Values travel as bits, which unions give for every type of elements.
template <class Bits, class T>
__device__ __forceinline__ Bits ws_bits_of(T value) {
    union { T value; Bits bits; } same;
    same.value = value;
    return same.bits;
}
// The barrier of the same block counts the bytes, once they are there.
template <class T>
__device__ __forceinline__ void ws_remote_store_async(
    T* to, int rank, T value, long long* barrier) {
    const unsigned place = ws_remote(to, rank), at = ws_remote(barrier, rank);
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "st.async stores 4 or 8 bytes");
    if constexpr (sizeof(T) == 8)
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b64"
                     " [%0], %1, [%2];"
                     :: "r"(place), "l"(ws_bits_of<unsigned long long>(value)), "r"(at)
                     : "memory");
    else
        asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32"
                     " [%0], %1, [%2];"
                     :: "r"(place), "r"(ws_bits_of<unsigned>(value)), "r"(at) : "memory");
}

//@ remote_barrier: cluster, barrier
// Readers tell that what they read may be overwritten. A load is over before an arrival that is
// ordered behind it, whoever hears of that, so they need no fence for all memory.
__device__ __forceinline__ void ws_remote_arrive(long long* barrier, int rank) {
    asm volatile("mbarrier.arrive.release.cta.shared::cluster.b64 _, [%0];"
                 :: "r"(ws_remote(barrier, rank)) : "memory");
}
// One arrival for all threads of a warp; `thread` counts threads from the start of some warp.
__device__ __forceinline__ void ws_remote_release(long long* barrier, int rank, int thread) {
    __syncwarp();
    if (thread % 32 == 0) ws_remote_arrive(barrier, rank);
}
__device__ __forceinline__ void ws_remote_release(long long* barrier, int rank) {
    ws_remote_release(barrier, rank, ws_thread());
}
// What blocks of the cluster did before they arrived is there behind it.
__device__ __forceinline__ void ws_cluster_wait(long long* barrier, int parity) {
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p;"
                     " mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;"
                     " selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(ws_address(barrier)), "r"(parity) : "memory");
}

//@ tensor_multicast: tensor
/// Loads of boxes into several blocks.
// The box comes to every block of the cluster whose bit is set, at the place that it has in this
// one, and the barrier of each at that place counts its bytes.
//@ each rank
__device__ __forceinline__ void ws_tensor_multicast(
    void* to, const ws_tensor_map& map, long long* barrier, unsigned short blocks, PLACE,
    bool mine = true) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %BEHIND_4, 0;"
                 " @p cp.async.bulk.tensor.RANKd.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.multicast::cluster"
                 " [%0], [%1, {FROM_4}], [%2], %3; }"
                 :: "r"(ws_address(to)), "l"(&map), "r"(ws_address(barrier)), "h"(blocks),
                    OPERANDS, "r"((unsigned)mine) : "memory");
}

//@ tensor_multicast_once: tensor
/// The same of boxes whose memory nobody else reads: it is the first to go from the L2.
//@ each rank
__device__ __forceinline__ void ws_tensor_multicast_once(
    void* to, const ws_tensor_map& map, long long* barrier, unsigned short blocks, PLACE,
    bool mine = true) {
    asm volatile("{ .reg .pred p; .reg .b64 policy; setp.ne.u32 p, %BEHIND_4, 0;"
                 " createpolicy.fractional.L2::evict_first.b64 policy;"
                 " @p cp.async.bulk.tensor.RANKd.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint"
                 " [%0], [%1, {FROM_4}], [%2], %3, policy; }"
                 :: "r"(ws_address(to)), "l"(&map), "r"(ws_address(barrier)), "h"(blocks),
                    OPERANDS, "r"((unsigned)mine) : "memory");
}

//@ cluster_watchdog: remote_barrier, watchdog
// Ends the launch after so many nanoseconds; the last look is what acquires.
__device__ __forceinline__ void ws_cluster_wait(
    long long* barrier, int parity, int site, int stage, unsigned long long limit) {
    ws_barrier_wait(barrier, parity, site, stage, limit);
    ws_cluster_wait(barrier, parity);
}
