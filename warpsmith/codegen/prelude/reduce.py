"""What a reduction combines: sums, products, extremes, and Welford's triples."""

from __future__ import annotations

from warpsmith.codegen.prelude.piece import Piece

_REDUCE_OPS = """
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
// An operation has `identity` and `combine`, and says whether combine(a, b) and combine(b, a) have
// equal bits: else lanes that exchange values must agree who comes first.
struct ws_sum {
    static constexpr bool symmetric = true;
    template <class T> static __device__ __forceinline__ T identity() { return (T)0; }
    template <class T> static __device__ __forceinline__ T combine(T a, T b) { return a + b; }
};
struct ws_prod {
    static constexpr bool symmetric = true;
    template <class T> static __device__ __forceinline__ T identity() { return (T)1; }
    template <class T> static __device__ __forceinline__ T combine(T a, T b) { return a * b; }
};
struct ws_max {  // NaN when one is NaN
    static constexpr bool symmetric = true;
    template <class T> static __device__ __forceinline__ T identity() {
        return ws_range<T>::low();
    }
    template <class T> static __device__ __forceinline__ T combine(T a, T b) {
        return ws_maximum(a, b);
    }
};
struct ws_min {  // NaN when one is NaN
    static constexpr bool symmetric = true;
    template <class T> static __device__ __forceinline__ T identity() {
        return ws_range<T>::high();
    }
    template <class T> static __device__ __forceinline__ T combine(T a, T b) {
        return ws_minimum(a, b);
    }
};
"""

# The reciprocal enters only as the weight by which a mean moves towards another, so its one ulp
# moves the mean by one ulp of the *difference*: below the rounding of the mean itself.
_WELFORD = """
// Mean, sum of squared distances to it, and number of the elements seen; all 0 when none.
template <class T> struct ws_welford { T mean, m2, count; };
// 1 / count within 1 ulp, in one instruction; count is a whole number from 1 to 2^126.
__device__ __forceinline__ float ws_reciprocal_of_count(float count) {
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(count));
    return r;
}
__device__ __forceinline__ double ws_reciprocal_of_count(double count) { return 1.0 / count; }
template <class T>
__device__ __forceinline__ void ws_welford_add(ws_welford<T>& w, T x) {
    w.count += (T)1;
    const T delta = x - w.mean;
    w.mean += delta * ws_reciprocal_of_count(w.count);
    w.m2 += delta * (x - w.mean);
}
struct ws_welford_combine {
    static constexpr bool symmetric = false;
    template <class W> static __device__ __forceinline__ W identity() { return W{0, 0, 0}; }
    template <class T>
    static __device__ __forceinline__ ws_welford<T> combine(ws_welford<T> a, ws_welford<T> b) {
        const T count = a.count + b.count;
        // An empty side leaves the other one exactly as it is, and two of them stay empty.
        const T share = a.count == (T)0 ? (T)1 : b.count * ws_reciprocal_of_count(count);
        const T delta = b.mean - a.mean;
        return {a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.count * share, count};
    }
};
"""

# Chan's combination of a part whose count is known: two passes over N values in registers, then
# one reciprocal, where Welford's update takes one for every value.
_WELFORD_JOIN = """
template <int N, class T>
__device__ __forceinline__ void ws_welford_join(const T (&x)[N], T& mean, T& m2, T& count) {
    T sum = x[0];
    #pragma unroll
    for (int k = 1; k < N; ++k) sum += x[k];
    const T part_mean = sum * ((T)1 / (T)N);
    T part_m2 = (T)0;
    #pragma unroll
    for (int k = 0; k < N; ++k) part_m2 += (x[k] - part_mean) * (x[k] - part_mean);
    const T before = count;
    count += (T)N;
    const T share = (T)N * ws_reciprocal_of_count(count);
    const T delta = part_mean - mean;
    mean += delta * share;
    m2 += part_m2 + delta * delta * before * share;
}
"""

REDUCE = (
    Piece(name="welford", text=_WELFORD),
    Piece(name="welford_join", needs=("welford",), text=_WELFORD_JOIN),
    Piece(name="reduce_ops", needs=("minimum_maximum", "welford"), text=_REDUCE_OPS),
)
