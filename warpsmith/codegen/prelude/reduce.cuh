/// What a reduction combines: sums, products, extremes, and Welford's triples.

//@ welford
/// The reciprocal enters only as the weight by which a mean moves towards another, so its one ulp
/// moves the mean by one ulp of the *difference*: below the rounding of the mean itself.
// Mean, sum of squared distances to it, and number of the elements seen; all 0 when none.
template <class T> struct ws_welford { T mean, m2, count; };
// 1 / count within 1 ulp, in one instruction; count is a whole number from 1 to 2^126.
__device__ __forceinline__ float ws_reciprocal_of_count(float count) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(count));
    return r;
}
__device__ __forceinline__ double ws_reciprocal_of_count(double count) { return 1.0 / count; }
__device__ __forceinline__ float ws_fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
__device__ __forceinline__ double ws_fused(double a, double b, double c) {
    return __fma_rn(a, b, c);
}
// What is left of a distance when the mean has moved: of its sign, and NaN where it is infinite.
template <class T> __device__ __forceinline__ T ws_welford_rest(T distance, T weight) {
    return ws_fused(-distance, weight, distance);
}
struct ws_welford_combine {
    template <class W> static __device__ __forceinline__ W identity() { return W{0, 0, 0}; }
    template <class T>
    static __device__ __forceinline__ ws_welford<T> combine(ws_welford<T> a, ws_welford<T> b) {
        const T count = a.count + b.count;
        // An empty side leaves the other one exactly as it is, and two of them stay empty.
        const T share = a.count == (T)0 ? (T)1 : b.count * ws_reciprocal_of_count(count);
        const T delta = b.mean - a.mean;
        return {a.mean + delta * share, a.m2 + b.m2 + delta * (delta * (a.count * share)), count};
    }
};

//@ welford_batch: welford
/// Several values at the price of one reciprocal: sums of their distances to the mean m so far, and
/// of the squares of those, move the mean and give what the sum of squares grows by, which is
/// sum((x - m)^2) - sum(x - m)^2 / n for the count n with the new values. Where at least as many
/// values came before, the first term is at least twice the second, so little cancels. The first
/// values have no mean before them, and the mean of a few of them stands for it. One value would not
/// do: where it is an outlier, it costs up to two digits (docs/lessons/reductions.md).
template <class T>
__device__ __forceinline__ void ws_welford_collect(T x, T shift, T& sum, T& squares) {
    const T distance = x - shift;
    sum += distance;
    squares = ws_fused(distance, distance, squares);
}
// `weight` is 1 / count, the batch counted in. Fused, so that squares that overflow give infinity
// and not NaN. What the sum grows by is no less than 0, and a NaN stays one.
template <class T>
__device__ __forceinline__ void ws_welford_close(
    T shift, T sum, T squares, T weight, T& mean, T& m2) {
    const T step = sum * weight;
    mean = shift + step;
    const T grown = ws_fused(-sum, step, m2 + squares);
    m2 = grown < m2 ? m2 : grown;
}
// What the distances of joined values are taken to: the mean so far, or where there is none theirs.
template <int N, class T>
__device__ __forceinline__ T ws_welford_shift(const T (&x)[N], T mean, T count) {
    T sum = x[0];
    #pragma unroll
    for (int k = 1; k < N; ++k) sum += x[k];
    return count == (T)0 ? sum * ((T)1 / (T)N) : mean;
}
template <int N, class T>
__device__ __forceinline__ void ws_welford_join(const T (&x)[N], T& mean, T& m2, T& count) {
    const T shift = ws_welford_shift(x, mean, count);
    T sum = (T)0, squares = (T)0;
    #pragma unroll
    for (int k = 0; k < N; ++k) ws_welford_collect(x[k], shift, sum, squares);
    count += (T)N;
    ws_welford_close(shift, sum, squares, ws_reciprocal_of_count(count), mean, m2);
}
// The values inside alone.
template <int N, class T>
__device__ __forceinline__ void ws_welford_join(
    const T (&x)[N], const bool (&inside)[N], T& mean, T& m2, T& count) {
    T more = (T)0, sum = (T)0, squares = (T)0;
    if (count == (T)0) {
        #pragma unroll
        for (int k = 0; k < N; ++k) if (inside[k]) { more += (T)1; sum += x[k]; }
        mean = more == (T)0 ? (T)0 : sum * ws_reciprocal_of_count(more);
    }
    const T shift = mean;
    more = sum = (T)0;
    #pragma unroll
    for (int k = 0; k < N; ++k) {
        if (inside[k]) { more += (T)1; ws_welford_collect(x[k], shift, sum, squares); }
    }
    count += more;
    const T weight = count == (T)0 ? (T)0 : ws_reciprocal_of_count(count);
    ws_welford_close(shift, sum, squares, weight, mean, m2);
}

//@ reduce_ops: minimum_maximum, welford
template <class T> struct ws_range;
template <> struct ws_range<float> {
    static __device__ __forceinline__ float low() { return -high(); }
    static __device__ __forceinline__ float high() { return __int_as_float(0x7f800000); }
};
template <> struct ws_range<double> {
    static __device__ __forceinline__ double low() { return -high(); }
    static __device__ __forceinline__ double high() {
        return __longlong_as_double(0x7ff0000000000000ll);
    }
};
template <> struct ws_range<int> {
    static __device__ __forceinline__ int low() { return (int)0x80000000u; }
    static __device__ __forceinline__ int high() { return 0x7fffffff; }
};
template <> struct ws_range<long long> {
    static __device__ __forceinline__ long long low() { return (long long)0x8000000000000000ull; }
    static __device__ __forceinline__ long long high() { return 0x7fffffffffffffffll; }
};
// An operation has `identity` and `combine`.
struct ws_sum {
    template <class T> static __device__ __forceinline__ T identity() { return (T)0; }
    template <class T> static __device__ __forceinline__ T combine(T a, T b) { return a + b; }
};
struct ws_prod {
    template <class T> static __device__ __forceinline__ T identity() { return (T)1; }
    template <class T> static __device__ __forceinline__ T combine(T a, T b) { return a * b; }
};
struct ws_max {  // NaN when one is NaN
    template <class T> static __device__ __forceinline__ T identity() {
        return ws_range<T>::low();
    }
    template <class T> static __device__ __forceinline__ T combine(T a, T b) {
        return ws_maximum(a, b);
    }
};
struct ws_min {  // NaN when one is NaN
    template <class T> static __device__ __forceinline__ T identity() {
        return ws_range<T>::high();
    }
    template <class T> static __device__ __forceinline__ T combine(T a, T b) {
        return ws_minimum(a, b);
    }
};
