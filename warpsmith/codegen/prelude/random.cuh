/// Device code of numbers that look random; `ops/table/random.py` says what they are.

//@ philox
/// Products of 32 bits are written apart, not as one of 64: the compiler then keeps all else in 32
/// bits, and joins the two halves again.
// Word 0 to 3 of Philox4x32-10 under the key `seed`, of the counter (offset, block), as a number in
// [0, 1).
__device__ __forceinline__ float ws_philox_word(
    long long block, long long word, long long seed, long long offset) {
    unsigned a = (unsigned)offset, b = (unsigned)((unsigned long long)offset >> 32);
    unsigned c = (unsigned)block, d = (unsigned)((unsigned long long)block >> 32);
    unsigned low = (unsigned)seed, high = (unsigned)((unsigned long long)seed >> 32);
    #pragma unroll
    for (int round = 0; round < 10; ++round) {
        const unsigned first = 0xD2511F53u * a, upper = __umulhi(0xD2511F53u, a);
        const unsigned second = 0xCD9E8D57u * c;
        a = __umulhi(0xCD9E8D57u, c) ^ b ^ low;
        b = second;
        c = upper ^ d ^ high;
        d = first;
        low += 0x9E3779B9u;
        high += 0xBB67AE85u;
    }
    const unsigned even = word & 2 ? c : a, odd = word & 2 ? d : b;
    return (float)((word & 1 ? odd : even) >> 8) * 5.9604644775390625e-08f;
}
__device__ __forceinline__ float ws_philox(long long index, long long seed, long long offset) {
    return ws_philox_word((unsigned long long)index >> 2, index & 3, seed, offset);
}

//@ kept
// Words 0 to 3 of Threefry4x32-12 under the key (seed, offset), of the counter `block`.
__device__ __forceinline__ void ws_threefry(
    unsigned (&words)[4], long long block, long long seed, long long offset) {
    unsigned keys[5] = {
        (unsigned)seed, (unsigned)((unsigned long long)seed >> 32),
        (unsigned)offset, (unsigned)((unsigned long long)offset >> 32), 0x1BD11BDAu};
    #pragma unroll
    for (int n = 0; n < 4; ++n) keys[4] ^= keys[n];
    const int turns[8][2] = {
        {10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}};
    words[0] = keys[0] + (unsigned)block;
    words[1] = keys[1] + (unsigned)((unsigned long long)block >> 32);
    words[2] = keys[2], words[3] = keys[3];
    #pragma unroll
    for (int turn = 0; turn < 12; ++turn) {
        #pragma unroll
        for (int half = 0; half < 2; ++half) {
            unsigned& to = words[2 * half];
            unsigned& by = words[turn % 2 == half ? 1 : 3];
            to += by;
            by = __funnelshift_l(by, by, turns[turn % 8][half]) ^ to;
        }
        if (turn % 4 == 3) {
            #pragma unroll
            for (int n = 0; n < 4; ++n) words[n] += keys[(turn / 4 + 1 + n) % 5];
            words[3] += turn / 4 + 1;
        }
    }
}
// Whether the number of a half of a word, the other half behind it, is no less than `least`.
__device__ __forceinline__ bool ws_kept_half(unsigned word, bool odd, long long least) {
    return (odd ? __funnelshift_l(word, word, 16) : word) >> 8 >= least;
}
__device__ __forceinline__ bool ws_kept_word(
    long long block, long long place, long long least, long long seed, long long offset) {
    unsigned words[4];
    ws_threefry(words, block, seed, offset);
    const unsigned even = place & 4 ? words[2] : words[0], odd = place & 4 ? words[3] : words[1];
    return ws_kept_half(place & 2 ? odd : even, place & 1, least);
}
__device__ __forceinline__ bool ws_kept(
    long long index, long long least, long long seed, long long offset) {
    return ws_kept_word((unsigned long long)index >> 3, index & 7, least, seed, offset);
}

//@ kept_quads: kept
// Word `lane` of the blocks of four lanes, each of which draws its own.
__device__ __forceinline__ void ws_kept_quads(
    int* words, int lane, long long block, long long seed, long long offset) {
    unsigned own[4];
    ws_threefry(own, block, seed, offset);
    #pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const bool upper = lane & step;
        #pragma unroll
        for (int n = 0; n < 4; ++n) {
            if (n & step) continue;
            const unsigned given = upper ? own[n] : own[n + step];
            const unsigned got = __shfl_xor_sync(0xffffffffu, given, step);
            own[n] = upper ? got : own[n];
            own[n + step] = upper ? own[n + step] : got;
        }
    }
    #pragma unroll
    for (int n = 0; n < 4; ++n) words[n] = own[n];
}

//@ keep_bits: kept, bits
// A bit for each half of some words; the bits that are there move down by as many.
template <int N, int Count>
__device__ __forceinline__ void ws_keep_bits(
    ws_bits<N>& bits, const int (&words)[Count], long long least) {
    constexpr int last = (N - 1) / 32, more = 2 * Count;
    unsigned found = 0;
    #pragma unroll
    for (int i = 0; i < more; ++i)
        found |= (unsigned)ws_kept_half(words[i / 2], i & 1, least) << i;
    #pragma unroll
    for (int i = 0; i < last; ++i)
        bits.words[i] = __funnelshift_r(bits.words[i], bits.words[i + 1], more);
    bits.words[last] = bits.words[last] >> more | found << (N - more) % 32;
}
