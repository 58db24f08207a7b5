"""Scans: of a thread's elements, and across the threads of a block."""

from __future__ import annotations

from warpsmith.codegen.prelude.piece import Piece

_SCAN = """
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
// coordinate of the others. First each thread scans its own, then the lanes of a warp what these
// come to, if whole warps lie along x, then every thread joins what the warps, or the threads,
// before its own come to. All threads of the team must call it. The order of joining is fixed.
// `scratch` has block_scan_scratch(...) elements.
template <class Op, bool RX, bool RY, bool RZ, bool Exclusive, bool Reverse, int N, class T,
          class Team = ws_whole_block>
__device__ __forceinline__ void ws_block_scan(
    T (&values)[N], T& running, T* scratch, int bx, int by, int bz, Team team = {}) {
    T own = Op::template identity<T>();
    ws_thread_scan<Op, Exclusive, Reverse>(values, own);
    const int tx = team.tx(), ty = team.ty(), tz = team.tz();
    int parts = RX ? bx : RY ? by : bz, part = RX ? tx : RY ? ty : tz;
    bool leads = true;
    T before = Op::template identity<T>();
    if (RX && bx % 32 == 0) {
        const int lane = tx & 31, place = Reverse ? 31 - lane : lane;
        #pragma unroll
        for (int offset = 1; offset < 32; offset *= 2) {
            const T other = ws_shuffle(own, (Reverse ? lane + offset : lane - offset) & 31);
            if (place >= offset) own = ws_scanned<Op, Reverse>(other, own);
        }
        const T other = ws_shuffle(own, (Reverse ? lane + 1 : lane - 1) & 31);
        if (place > 0) before = other;
        own = ws_shuffle(own, Reverse ? 0 : 31);
        parts /= 32;
        part /= 32;
        leads = lane == 0;
    }
    T all = own;
    if (parts > 1) {
        const int kx = RX ? 1 : bx, ky = RY ? 1 : by, kz = RZ ? 1 : bz;
        const int kept = kx * ky * kz;
        const int key = (RX ? 0 : tx) + kx * ((RY ? 0 : ty) + ky * (RZ ? 0 : tz));
        team.meet();  // a previous call may still be reading scratch
        if (leads) scratch[part * kept + key] = own;
        team.meet();
        T earlier = Op::template identity<T>();
        all = Op::template identity<T>();
        for (int p = 0; p < parts; ++p) {
            const int place = Reverse ? parts - 1 - p : p;
            if (place == part) earlier = all;
            all = ws_scanned<Op, Reverse>(all, scratch[place * kept + key]);
        }
        before = ws_scanned<Op, Reverse>(earlier, before);
    }
    before = ws_scanned<Op, Reverse>(running, before);
    #pragma unroll
    for (int n = 0; n < N; ++n) values[n] = ws_scanned<Op, Reverse>(before, values[n]);
    running = ws_scanned<Op, Reverse>(running, all);
}
"""

SCAN = (Piece(name="scan", needs=("welford", "reduce_ops", "block_reduce"), text=_SCAN),)
