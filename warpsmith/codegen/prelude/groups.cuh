/// Which group a part of the rows of a grouped product belongs to (`ir/groups.py`).

//@ groups
// Where a group ends, inside the rows, whatever memory says; before the first, and the last, too.
template <typename I, typename T>
__device__ __forceinline__ I ws_group_end(const T* ends, I stride, I count, I rows, I group) {
    if (group < 0) return 0;
    if (group >= count) return rows;
    long long end = ends[group * stride];
    return end < 0 ? 0 : end > rows ? rows : (I)end;
}

// The last group whose parts begin at `part` or before.
template <typename I, typename T>
__device__ __forceinline__ I ws_group(const T* ends, I stride, I count, I rows, I size, I part) {
    I low = 0, high = count;
    while (low < high) {
        I middle = (low + high + 1) / 2;
        I first = ws_group_end<I>(ends, stride, count, rows, middle - 1) / size + middle;
        if (first <= part) low = middle;
        else high = middle - 1;
    }
    return low;
}
