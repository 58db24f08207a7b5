/* Numbers of a recipe as functions of one size: a stack machine for whole numbers. */
#include "launcher.h"

enum { MOST_HELD = 64 };

/* Steps of a program. `engine/lines.py` has the same list. */
enum {
    PUSH, SIZE, STORE, HOLDS, ADD, SUB, MUL, FLOORDIV, MOD, CEILDIV, MINIMUM, MAXIMUM, LT, LE, EQ,
    AND, OR, WHERE, XOR, MAGIC, SHIFT, STEPS
};

static const signed char taken[STEPS] = {
    [STORE] = 1, [HOLDS] = 1, [ADD] = 2, [SUB] = 2, [MUL] = 2, [FLOORDIV] = 2, [MOD] = 2,
    [CEILDIV] = 2, [MINIMUM] = 2, [MAXIMUM] = 2, [LT] = 2, [LE] = 2, [EQ] = 2, [AND] = 2, [OR] = 2,
    [WHERE] = 3, [XOR] = 2, [MAGIC] = 1, [SHIFT] = 1};

/* Whether a program keeps to its memory. */
int is_program(const int64_t *program, int length, int number_count)
{
    int held = 0;
    for (int at = 0; at < length; at++) {
        int64_t step = program[at];
        if (step < 0 || step >= STEPS || held < taken[step])
            return 0;
        held += (step == STORE || step == HOLDS ? 0 : 1) - taken[step];
        if (held > MOST_HELD)
            return 0;
        if (step == PUSH || step == STORE) {
            if (++at == length)
                return 0;
            if (step == STORE && (program[at] < 0 || program[at] >= number_count))
                return 0;
        }
    }
    return held == 0;
}

static int64_t floor_of(int64_t a, int64_t b)
{
    int64_t quotient = a / b;
    return quotient - (a % b != 0 && (a < 0) != (b < 0));
}

static int shift_of(int64_t divisor)
{
    int shift = 0;
    while (shift < 62 && (int64_t)1 << shift < divisor)
        shift++;
    return shift;
}

/* See `Reciprocal` in warpsmith/kernel/kernel.py; of a divisor below 2**31. */
static int64_t magic_of(int64_t divisor)
{
    uint64_t of = divisor < 1 ? 1 : (uint64_t)divisor;
    uint64_t magic = (((uint64_t)1 << shift_of((int64_t)of)) - of) * ((uint64_t)1 << 32) / of + 1;
    return (int32_t)(uint32_t)magic;
}

/* The numbers for one size, 1; or 0 where the program does not hold for it. */
int numbers_of(const int64_t *program, int length, int64_t size, int64_t *numbers)
{
    int64_t held[MOST_HELD + 3], *top = held; /* top: behind the last one */
    for (int at = 0; at < length; at++) {
        int64_t step = program[at], *a = top - taken[step], b = taken[step] > 1 ? top[-1] : 0;
        top = a + 1;
        switch (step) {
        case PUSH:
            *a = program[++at];
            break;
        case SIZE:
            *a = size;
            break;
        case STORE:
            numbers[program[++at]] = *a;
            top = a;
            break;
        case HOLDS:
            if (!*a)
                return 0;
            top = a;
            break;
        case ADD:
            if (__builtin_add_overflow(*a, b, a))
                return 0;
            break;
        case SUB:
            if (__builtin_sub_overflow(*a, b, a))
                return 0;
            break;
        case MUL:
            if (__builtin_mul_overflow(*a, b, a))
                return 0;
            break;
        case FLOORDIV:
        case MOD:
        case CEILDIV:
            if (b <= 0)
                return 0;
            *a = step == FLOORDIV ? floor_of(*a, b)
                : step == MOD     ? *a - floor_of(*a, b) * b
                                  : -floor_of(-*a, b);
            break;
        case MINIMUM:
            *a = *a < b ? *a : b;
            break;
        case MAXIMUM:
            *a = *a > b ? *a : b;
            break;
        case LT:
            *a = *a < b;
            break;
        case LE:
            *a = *a <= b;
            break;
        case EQ:
            *a = *a == b;
            break;
        case AND:
            *a = *a && b;
            break;
        case OR:
            *a = *a || b;
            break;
        case XOR:
            *a ^= b;
            break;
        case WHERE:
            *a = *a ? a[1] : a[2];
            break;
        case MAGIC:
        case SHIFT:
            if (*a >= (int64_t)1 << 31)
                return 0;
            *a = step == MAGIC ? magic_of(*a) : shift_of(*a < 1 ? 1 : *a);
            break;
        }
    }
    return 1;
}
