/// Indices that memory says (`ir/reads.py`).

//@ places
// An index that lies inside an extent; there is no element elsewhere, and the kernel ends.
template <typename I>
__device__ __forceinline__ I ws_place(long long index, I extent) {
    if ((unsigned long long)index >= (unsigned long long)extent) asm volatile("trap;");
    return (I)index;
}

// The same, where negative indices count from the end.
template <typename I>
__device__ __forceinline__ I ws_place_from_end(long long index, I extent) {
    return ws_place<I>(index < 0 ? index + extent : index, extent);
}

//@ searches
// How many of `count` elements, which ascend, are no larger than `wanted`.
template <typename T, typename I, typename W>
__device__ __forceinline__ long long
ws_count_up_to(const T* row, I start, I step, I count, W wanted) {
    I low = 0;
    while (low < count) {
        I middle = low + (count - low) / 2;
        if (row[start + middle * step] <= wanted) low = middle + 1;
        else count = middle;
    }
    return low;
}

// Where what comes at `wanted` stands when all zeros come first; a row counts them up to a place.
template <typename T, typename I, typename W>
__device__ __forceinline__ long long
ws_nth_parted(const T* row, I start, I step, I count, W wanted) {
    const long long zeros = row[start + (count - 1) * step];
    const bool one = wanted >= zeros;
    const long long before = one ? wanted - zeros : wanted;
    I low = 0;
    while (low < count) {
        I middle = low + (count - low) / 2;
        const long long found = row[start + middle * step];
        if ((one ? middle + 1 - found : found) <= before) low = middle + 1;
        else count = middle;
    }
    return low;
}

//@ rank
// Numbers without a sign in the order of floats; NaN last, zeros of both signs the same.
__device__ __forceinline__ long long ws_rank(float x) {
    const unsigned word = __float_as_int(x + 0.0f), sign = 0x80000000u;
    return x != x ? 0xffffffffu : word & sign ? ~word : word ^ sign;
}
__device__ __forceinline__ long long ws_rank(double x) {
    const unsigned long long word = __double_as_longlong(x + 0.0), sign = 1ull << 63;
    return x != x ? -1ll : (long long)(word & sign ? ~word : word ^ sign);
}
