/// Which group a part of the rows of a grouped product belongs to (`ir/groups.py`).

//@ groups
// Where a group ends, inside the rows, whatever memory says; of the last, behind all of them.
template <typename I, typename T>
__device__ __forceinline__ I ws_group_end(const T* ends, I stride, I count, I rows, I group) {
    if (group >= count) return rows;
    const decltype(T() + I()) end = ends[group * stride];
    return end < 0 ? 0 : end > rows ? rows : (I)end;
}

// Where the group of a lane begins, and ends, of 32 groups from `first` on, before which others end at
// `begin`. A group begins where the one before ends, and one that ends before that has no rows.
template <typename I, typename T>
__device__ __forceinline__ I ws_group_begin(
    const T* ends, I stride, I count, I rows, I first, unsigned lane, I begin, I& end) {
    end = ws_group_end(ends, stride, count, rows, first + (I)lane);
    const I before = __shfl_up_sync(0xffffffff, end, 1), start = lane ? before : begin;
    if (!__any_sync(0xffffffff, end < start)) return start;
    end = max(end, begin);
    for (unsigned by = 1; by < 32; by *= 2) {
        const I others = __shfl_up_sync(0xffffffff, end, by);
        if (lane >= by) end = max(end, others);
    }
    const I last = __shfl_up_sync(0xffffffff, end, 1);
    return lane ? last : begin;
}

// How many parts a group has, or of each kind: those of groups of one part alone, and others.
template <typename I>
__device__ __forceinline__ I ws_parts(I begin, I end, I size) {
    return end > begin ? (end - begin + size - 1) / size : 0;
}
template <typename I>
__device__ __forceinline__ I ws_parts(I begin, I end, I size, bool single) {
    const I parts = ws_parts(begin, end, size);
    return (parts == 1) == single ? parts : 0;
}

// The first row of a part; of one that no group has, behind all rows. Groups of one part have every
// so many numbers each, evenly, and the others those between. A whole warp looks at 32 groups at a
// time; one that is not whole, a thread for itself, at each.
template <typename I, typename T>
__device__ __forceinline__ I ws_group_row(
    const T* ends, I stride, I count, I rows, I size, I all, I singles, I part) {
    const I every = singles ? all / singles : all + 1, turn = part / every;
    const bool single = turn < singles && part % every == every - 1;
    part = single ? turn : part - (turn < singles ? turn : singles);
    I begin = 0;
    if (__activemask() != 0xffffffff) {
        I found = rows;
#pragma unroll 4
        for (I group = 0; group <= count; group++) {
            const I end = max(begin, ws_group_end(ends, stride, count, rows, group));
            const I parts = ws_parts(begin, end, size, single);
            if (0 <= part && part < parts) found = begin + part * size;
            part -= parts;
            begin = end;
        }
        return found;
    }
    for (I first = 0; first <= count; first += 32) {
        unsigned lane;  // asked for in each turn: NVRTC makes a loop for each answer to what it knows
        asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
        I end;
        const I start = ws_group_begin(ends, stride, count, rows, first, lane, begin, end);
        const I parts = ws_parts(start, end, size, single);
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

// What all groups have together of what one has, by where it begins and ends. A whole warp looks at
// 32 groups at a time.
template <typename I, typename T, typename F>
__device__ __forceinline__ I ws_of_groups(const T* ends, I stride, I count, I rows, F of) {
    const bool whole = __activemask() == 0xffffffff;
    unsigned lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    I found = 0, begin = 0, end;
    for (I group = 0; !whole && group <= count; group++, begin = end) {
        end = max(begin, ws_group_end(ends, stride, count, rows, group));
        found += of(begin, end);
    }
    for (I first = 0; whole && first <= count; first += 32) {
        const I start = ws_group_begin(ends, stride, count, rows, first, lane, begin, end);
        found += of(start, end);
        begin = __shfl_sync(0xffffffff, end, 31);
    }
    for (unsigned by = 16; whole && by; by /= 2) found += __shfl_xor_sync(0xffffffff, found, by);
    return found;
}

// How many parts all groups have, and how many groups have one.
template <typename I, typename T>
__device__ __forceinline__ I ws_group_parts(const T* ends, I stride, I count, I rows, I size) {
    return ws_of_groups<I>(ends, stride, count, rows,
                           [=](I begin, I end) { return ws_parts(begin, end, size); });
}
template <typename I, typename T>
__device__ __forceinline__ I ws_group_singles(const T* ends, I stride, I count, I rows, I size) {
    return ws_of_groups<I>(ends, stride, count, rows,
                           [=](I begin, I end) { return ws_parts(begin, end, size, true); });
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
