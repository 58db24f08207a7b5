/* The one entry of this library, as warpsmith/sim/machine.py calls it. */
#pragma once
#include "machine/machine.h"

typedef struct {
    const u8 *bytes; /* before the launch */
    u8 *result; /* after it; as large */
    u64 size;
    u32 defined; /* its bytes are defined before anybody writes them */
    u32 open; /* the rest of the 16 bytes that it ends in may be read */
    u32 settled; /* the kernel before does not write it */
} sim_buffer;

typedef struct {
    const insn *code;
    const operand *operands;
    const i32 *targets;
    const sim_buffer *buffers;
    const u8 *module, *constant, *params;
    u64 module_size, constant_size, params_size, seed, budget;
    u32 code_count, register_count, local_bytes, buffer_count;
    u32 grid[3], block[3], cluster[3];
    u32 shared_static, shared_total; /* both with the first kilobyte */
    u32 entry_registers, resident, order;
    u32 early; /* the kernel before may still run, until this one has waited for it */
    u32 event_capacity;
    trace_event *events; /* NULL when nobody wants a timeline */
    char *printed; /* room for what the kernel prints */
    u64 printed_capacity;
} sim_launch;

typedef struct {
    finding *findings; /* room for MAX_FINDINGS */
    u32 finding_count;
    statistics stats;
    u64 printed_size, events_lost;
    u32 event_count;
} sim_result;

void sim_run(const sim_launch *l, sim_result *result);

/* Of machine.c, for schedule.c. */
void cta_place(cta *c);
void cta_free(cta *c);
