/* Floats as their bits, and back. */
#pragma once
#include <string.h>

#include "sim.h"

static inline float float_of(u32 bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline u32 bits_of(float value) {
    u32 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline double double_of(u64 bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline u64 bits_of_double(double value) {
    u64 bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
