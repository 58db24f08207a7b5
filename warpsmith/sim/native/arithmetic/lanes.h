/* What the parts of the arithmetic share: loops over lanes, and bits seen as numbers. */
#pragma once
#include <string.h>

#include "arithmetic/alu.h"
#include "arithmetic/patterns.h"

#define ALL_LANES 0xffffffffu

/* A destination is either the same row as a source or apart from it, so lanes never depend on each
   other: the compiler may run several at once. */
#if defined(__GNUC__) && !defined(__clang__)
#define LANES_ARE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define LANES_ARE_INDEPENDENT
#endif

/* For what must become part of a lane loop, switches on constants and all. */
#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* Do the statements for every lane `i` of `mask`; a whole warp, the usual case, by a plain loop. */
#define EACH(...)                             \
    do {                                      \
        if (mask == ALL_LANES) {              \
            LANES_ARE_INDEPENDENT             \
            for (int i = 0; i < LANES; i++) { \
                __VA_ARGS__;                  \
            }                                 \
        } else                                \
            FOR_LANES(i, mask) {              \
                __VA_ARGS__;                  \
            }                                 \
    } while (0)

/* One operation for each lane: sources p, q and r of C type S, a result of unsigned type D. */
#define UNARY(S, D, result) EACH(const S p = (S)x[i]; d[i] = (u64)(D)(result))
#define BINARY(S, D, result) \
    EACH(const S p = (S)x[i]; const S q = (S)y[i]; d[i] = (u64)(D)(result))
#define TERNARY(S, D, result)                                           \
    EACH(const S p = (S)x[i]; const S q = (S)y[i]; const S r = (S)z[i]; \
         d[i] = (u64)(D)(result))

/* A case label for an operation on a type. */
#define KEY(op, type) ((u32)(op) << 8 | (u32)(type))

/* `condition ? yes : no` without a branch, which would keep the compiler from vectorizing. */
static inline u32 choose(bool condition, u32 yes, u32 no) {
    const u32 taken = 0u - (u32)condition;
    return (yes & taken) | (no & ~taken);
}

/* The NaNs that arithmetic of PTX gives. */
#define F32_NAN 0x7fffffffu
#define F64_NAN 0xfff8000000000000ull
#define F16_NAN 0x7fffu
#define BF16_NAN 0x7fffu

#define F32_SIGN 0x80000000u
#define F32_INF 0x7f800000u
#define F64_SIGN 0x8000000000000000ull
#define F64_INF 0x7ff0000000000000ull

static inline bool f32_is_nan(u32 bits) { return (bits & ~F32_SIGN) > F32_INF; }
static inline bool f64_is_nan(u64 bits) { return (bits & ~F64_SIGN) > F64_INF; }

static inline u64 f64_quiet(u64 nan) { return nan | 1ull << 51; }

/* .ftz: subnormals become zeros of their sign. */
static inline u32 f32_flush(u32 bits) { return bits & F32_INF ? bits : bits & F32_SIGN; }
static inline u32 f32_flush_if(bool ftz, u32 bits) {
    return !ftz || (bits & F32_INF) ? bits : bits & F32_SIGN;
}

/* .sat: into [0, 1]; NaN and -0 become +0. */
static inline u32 f32_saturate(u32 bits) {
    return (bits & F32_SIGN) || f32_is_nan(bits) ? 0 : bits > 0x3f800000u ? 0x3f800000u : bits;
}

/* Turn the host's rounding to that of PTX; returns what `restore_rounding` takes. */
int set_rounding(int round);
void restore_rounding(int saved);

/* The parts. Each runs the operations of its file and returns false for a combination that is not
   PTX's; sources as in `alu_run`. */
bool integer_run(const insn *in, u64 *d, const u64 *const *a, u32 mask, u32 *carry);
bool bits_run(const insn *in, u64 *d, u64 *d2, const u64 *const *a, u32 mask);
bool f32_run(const insn *in, u64 *d, const u64 *const *a, u32 mask);
bool f64_run(const insn *in, u64 *d, const u64 *const *a, u32 mask);
bool half_run(const insn *in, u64 *d, const u64 *const *a, u32 mask);
bool approximate_run(const insn *in, u64 *d, const u64 *const *a, u32 mask);
bool compare_run(const insn *in, u64 *d, u64 *d2, const u64 *const *a, u32 mask);
bool convert_run(const insn *in, u64 *d, const u64 *const *a, u32 mask);

/* Parts of convert_run: two floats into one register, the first in the high half; halves from and
   to eight-bit floats; cvt.pack. */
bool pair_from_floats(const insn *in, u64 *d, const u64 *high, const u64 *low, u32 mask);
bool pair_from_pair(const insn *in, u64 *d, const u64 *x, u32 mask);
bool pack_run(const insn *in, u64 *d, const u64 *const *a, u32 mask);
