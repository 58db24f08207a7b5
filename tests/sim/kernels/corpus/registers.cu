// y = x * x by two compute groups that take registers from an idle group.
//
// 384 threads of 168 registers: group 0 keeps 40, groups 1 and 2 get 232 each.
#include "ptx.cuh"

enum Fault {
  none,
  over_pool,     // 240 for each compute group: 40 + 2 * 240 is more than 3 * 168
  no_decrease,   // group 0 gives nothing
  uneven,        // the warps of a group ask for different numbers
  one_warp,      // one warp of group 0 gives, the others do not take part
  wrong_way,     // an increase below the present number
  no_minimum,    // the launch bound leaves the number at entry open
};
#ifndef FAULT
#define FAULT none
#endif
constexpr Fault fault = FAULT;

constexpr u32 MORE = fault == over_pool ? 240 : 232;

extern "C" __global__ void __launch_bounds__(384, fault == no_minimum ? 0 : 1)
    registers(const float* x, float* y, u32 size) {
  const u32 group = threadIdx.x / 128, warp = threadIdx.x / 32;
  if (group == 0) {
    if (fault != no_decrease && (fault != one_warp || warp == 0)) registers_decrease<40>();
  } else {
    if (fault == uneven && warp == 4) {
      registers_increase<200>();
    } else if (fault == wrong_way) {
      registers_increase<160>();
    } else {
      registers_increase<MORE>();
    }
    for (u32 i = threadIdx.x - 128; i < size; i += 256) y[i] = x[i] * x[i];
  }
  __syncthreads();
}
