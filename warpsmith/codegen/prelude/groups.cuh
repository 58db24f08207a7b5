/// Which group a part of the rows of a grouped product belongs to (`ir/groups.py`).

//@ groups
// Where a group ends, inside the rows, whatever memory says; of the last, behind all of them.
template <typename I, typename T>
__device__ __forceinline__ I ws_group_end(const T* ends, I stride, I count, I rows, I group) {
    if (group >= count) return rows;
    const decltype(T() + I()) end = ends[group * stride];
    return end < 0 ? 0 : end > rows ? rows : (I)end;
}

// The first row of a part; of one that no group has, behind all rows. A whole warp looks at 32
// groups at a time; one that is not whole, a thread for itself, at each.
template <typename I, typename T>
__device__ __forceinline__ I ws_group_row(
    const T* ends, I stride, I count, I rows, I size, I part) {
    I begin = 0;
    if (__activemask() != 0xffffffff) {
        I found = rows;
#pragma unroll 4
        for (I group = 0; group <= count; group++) {
            const I end = ws_group_end(ends, stride, count, rows, group);
            const I parts = end > begin ? (end - begin + size - 1) / size : 0;
            if (0 <= part && part < parts) found = begin + part * size;
            part -= parts;
            begin = end;
        }
        return found;
    }
    for (I first = 0; first <= count; first += 32) {
        unsigned lane;  // asked for in each turn: NVRTC makes a loop for each answer to what it knows
        asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
        const I end = ws_group_end(ends, stride, count, rows, first + (I)lane);
        const I before = __shfl_up_sync(0xffffffff, end, 1), start = lane ? before : begin;
        const I parts = end > start ? (end - start + size - 1) / size : 0;
        I behind = parts;
        for (unsigned by = 1; by < 32; by *= 2) {
            const I others = __shfl_up_sync(0xffffffff, behind, by);
            if (lane >= by) behind += others;
        }
        const unsigned in = __ballot_sync(0xffffffff, part < behind);
        if (in) return __shfl_sync(0xffffffff, start + (part - (behind - parts)) * size, __ffs(in) - 1);
        part -= __shfl_sync(0xffffffff, behind, 31);
        begin = __shfl_sync(0xffffffff, end, 31);
    }
    return rows;
}

// How many parts all groups have. A whole warp counts those of 32 groups at a time.
template <typename I, typename T>
__device__ __forceinline__ I ws_group_parts(const T* ends, I stride, I count, I rows, I size) {
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    I parts = 0;
    for (I group = (I)lane; group <= count; group += 32) {
        const I begin = group ? ws_group_end(ends, stride, count, rows, group - 1) : 0;
        const I end = ws_group_end(ends, stride, count, rows, group);
        parts += end > begin ? (end - begin + size - 1) / size : 0;
    }
    for (unsigned by = 16; by; by /= 2) parts += __shfl_xor_sync(0xffffffff, parts, by);
    return parts;
}

// The group that has a row, the first that ends behind it: the last where no other does. A warp looks
// at 32 of them at a time, and finds what a thread does, whatever memory says.
template <typename I, typename T>
__device__ __forceinline__ I ws_group(const T* ends, I stride, I count, I rows, I row) {
    I group = 0;
    if (__activemask() != 0xffffffff) {
#pragma unroll 4
        while (group < count && ws_group_end(ends, stride, count, rows, group) <= row) group++;
        return group;
    }
    for (; group < count; group += 32) {
        unsigned lane;
        asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
        const I end = ws_group_end(ends, stride, count, rows, group + (I)lane);
        const unsigned behind = __ballot_sync(0xffffffff, row < end);
        if (behind) return min(group + (I)__ffs(behind) - 1, count);
    }
    return count;
}
