/* The machine: what its parts do for each other.

   Who may include what: `sim.h` is below all; `arithmetic/`, `matrix/` and `tensor/` compute and know
   no machine; `memory/` knows who touched what, and no instructions; `instructions/` has a file for
   each family; `machine/` fetches, diverges, and picks who runs. */
#pragma once
#include "machine/state.h"

/* ---- report.c */
finding *report(machine *m, finding_kind kind, const warp *w, i32 lane, i32 pc, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Counts it once more when it was; a hot path need not find words for it. */
bool reported_before(machine *m, finding_kind kind, i32 pc);
/* "warp 3 lane 5 of CTA 0" and so on; `who` as in cells. */
const char *describe_who(const machine *m, u32 who, u32 time, char *text, size_t size);
void split_who(const machine *m, u32 who, i32 *cta_index, i32 *warp_index, i32 *lane);

/* ---- warp.c: lanes that touch a buffer while the kernel before may still run. */
void check_start(warp *w, i32 pc, u32 lanes, const char *how, i32 buffer);

/* ---- trace.c: each does nothing unless events are kept. */
void trace_wait(const warp *w, const split *s, u64 begin); /* it is over */
void trace_exit(const warp *w, i32 pc);
void trace_landing(machine *m, const effect *e);
void trace_phase(machine *m, u32 cta_index, const mbarrier *b);
void trace_arrival(const warp *w, i32 pc, u32 cta_index, const mbarrier *b, u32 lanes);
void trace_over(const warp *w, i32 pc, const mbarrier *b);
void trace_generation(machine *m, u32 cta_index, u32 id, const named_barrier *b);
void trace_finish(machine *m);

/* ---- memory.c */
typedef struct {
    region *in; /* NULL when there is none */
    u64 offset; /* within in->data */
} place;
place memory_find(machine *m, const cta *from, u64 generic, u32 bytes);
u32 bytes_behind(const machine *m, u64 address, u32 bytes);
u64 generic_address(int space, u64 address);
void region_open(region *r, region_kind kind, u8 *data, u64 base, u64 start, u64 size, bool defined);
void region_close(machine *m, region *r);

/* ---- cells.c */
/* The run that begins at `offset`, and ends at `end` at the latest; the bytes before it are another. */
cell *run_at(machine *m, region *r, u64 offset, u64 end, u32 *length);
/* The runs from `offset` to `end`, whose cells are the same and whose lists are empty, become one in each
   16 bytes. */
void runs_join(region *r, u64 offset, u64 end);
const cell *run_of(const region *r, u64 offset, u64 *end); /* that holds a byte; where it ends */
const cell *cell_of(const region *r, u64 offset);
void cells_free(machine *m, cell_page *p);
u32 access_take(machine *m); /* an entry of a list */
void access_drop(machine *m, u32 index);

/* ---- shadow.c */
typedef struct {
    machine *m;
    warp *by;
    u32 lane;
    u32 who, time, pc; /* of the record; pc with SHADOW_* bits */
    bool async, global; /* through the async proxy; in global memory */
    bool silent; /* record without checking */
} actor;
actor actor_thread(warp *w, u32 lane, i32 pc);
actor actor_channel(warp *w, u32 lane, i32 pc, int channel, u32 time);
typedef enum { KNOWN, UNFENCED, UNKNOWN } order_known;
order_known known_to(const actor *a, u32 who, u32 time);
/* The same for several lanes of one warp: all of them must be known. */
order_known known_lanes(const actor *a, u32 who, u32 lanes, u32 time);
/* Check and record; a read returns true when a byte is undefined. */
bool shadow_read(const actor *a, region *r, u64 offset, u32 bytes);
bool shadow_undefined(const region *r, u64 offset, u32 bytes);
void shadow_write(const actor *a, region *r, u64 offset, u32 bytes, bool poison);
/* Records of effect `number` become records of `agent` at `time`. */
void shadow_land(machine *m, region *r, u64 offset, u32 bytes, u32 number, u32 who, u32 time,
                 bool poison);
u32 who_of(const cta *c, u32 agent, u32 lane);

/* ---- sync.c: how knowledge moves */
void acquire(warp *w, u32 lanes, const vclock *from);
void acquire_reads(warp *w, u32 lanes, const vclock *from);
void release_into(warp *w, u32 lanes, vclock *into);
void proxy_fence(warp *w, u32 lanes, bool shared, bool global);
void warp_synchronize(warp *w, u32 lanes);
u32 known_phase(const warp *w, u32 lane, u32 cta, u32 agent);
void see_into(const warp *w, u32 lanes, vclock *into); /* phases only */
location *location_at(machine *m, u64 address, bool make);

/* ---- signals.c: strong writes to global memory without a release */
void signal_sent(warp *w, u32 lane, i32 pc, location *l, bool extends);
void signal_seen(warp *w, const location *l, bool acquires);
void signals_acquired(warp *w); /* an acquire fence */
/* The signal that would order an access of another CTA before `a`, had its own thread fenced behind
   what it knew, as the threads of that access have; NULL where there is none. */
const unfenced *signal_between(const actor *a, u32 who, u32 time);

/* ---- operands.c: `i` counts an instruction's operands, vectors spread out. */
const operand *operand_at(const warp *w, const insn *in, u32 i);
const u64 *source(warp *w, const insn *in, u32 i, row scratch, u32 mask); /* a row of values */
u64 scalar(warp *w, const insn *in, u32 i, u32 lane); /* the value of one lane */
u64 address_of(warp *w, const insn *in, u32 i, u32 lane);
u32 undefined_of(const warp *w, const insn *in, u32 i);
/* Of the undefined lanes, those of which the low (0) or high (1) half is defined. */
u32 known_half_of(const warp *w, const insn *in, u32 i, u32 half);
u64 *destination(warp *w, const insn *in, u32 i); /* NULL for a sink */
void define(warp *w, const insn *in, u32 i, u32 mask, u32 undefined, u32 origin);
/* Say of what was just defined which lanes have a defined half. */
void define_half(warp *w, const insn *in, u32 i, u32 mask, u32 half, u32 known);
/* Report lanes of `mask` in which operand `i` holds undefined bits; `what` is its part. */
void require_defined(warp *w, const insn *in, u32 i, u32 mask, const char *what);
i32 pc_of(const warp *w, const insn *in);
u64 special(const warp *w, int which, u32 lane);
u32 type_bytes(int type);
int first_lane(u32 mask);

/* ---- undefined.c */
/* Lanes of an arithmetic result that its undefined operands can change. */
u32 reaching_result(warp *w, const insn *in, u32 first, const u64 *const *a, u32 mask, u32 undefined);
/* Lanes to execute an instruction for when the guard of some is undefined; reports what depends on it
   and is neither a register nor the lane's own memory. */
u32 judge_guard(warp *w, const insn *in, u32 mask);

/* ---- families. Each returns what becomes of the split. */
typedef enum {
    STEP_NEXT, /* done: go on with the next instruction */
    STEP_JUMPED, /* done: the pc is set */
    STEP_BLOCKED, /* not done: the split's state says what it waits for */
    STEP_YIELD, /* done, and others should run */
    STEP_GONE, /* the split does not exist any more */
} step;

step run_access(warp *w, split *s, const insn *in, u32 mask);
step run_lanes(warp *w, split *s, const insn *in, u32 mask);
step run_barrier(warp *w, split *s, const insn *in, u32 mask);
step run_mbarrier(warp *w, split *s, const insn *in, u32 mask);
step run_copy(warp *w, split *s, const insn *in, u32 mask);
step run_matrix(warp *w, split *s, const insn *in, u32 mask);
step run_setmaxnreg(warp *w, split *s, const insn *in, u32 mask);
step run_printf(warp *w, const insn *in, u32 mask);
step run_assert(warp *w, const insn *in, u32 mask);
/* Lanes to run a .sync instruction for: those of all splits that wait at it once every member is
   there, else 0 and the split waits. */
u32 gather_members(warp *w, split *s, const insn *in, u32 mask, u32 members);
/* The same for instructions that the whole warp executes: `.aligned`. */
u32 gather_warp(warp *w, split *s, const insn *in, u32 mask, const char *what);

/* Is the split's wait over? */
bool mbarrier_ready(const warp *w, const split *s);
bool barrier_ready(const warp *w, const split *s);
bool cluster_ready(const warp *w, const split *s);
bool group_ready(const warp *w, const split *s);
bool registers_ready(const warp *w, const split *s);
void mbarrier_wait_describe(const warp *w, const split *s, char *text, size_t size);
void barrier_wait_describe(const warp *w, const split *s, char *text, size_t size);
mbarrier *mbarrier_find(cta *c, u32 address);
bool mbarrier_init_known(const warp *w, u32 lane, const cta *owner, const mbarrier *b, i32 pc);
/* The barrier that a copy will complete on must be live and known; false when there is none. */
bool mbarrier_check_copy(warp *w, u32 lane, cta *owner, u32 address, i32 pc);
void mbarriers_fence(warp *w, u32 lanes); /* fence.mbarrier_init */
void matrices_finish_check(cta *c);
void named_barriers_finish_check(cta *c);
void mbarrier_transact(machine *m, cta *c, u32 address, i64 bytes, const effect *e);
void mbarrier_arrive_async(warp *w, u32 lanes, u32 address, bool noinc, i32 pc);
void mbarriers_exit_check(cta *c);
void named_barriers_recheck(cta *c); /* after threads exited */
void cluster_barrier_recheck(cta *c);
void setmaxnreg_exit_check(cta *c);

void effect_land(machine *m, u32 index);
void effect_free(effect *e);
void effects_exit_check(warp *w, u32 lanes, i32 pc);
void matrices_exit_check(warp *w, u32 lanes, i32 pc);

/* ---- instructions/registers.c */
void run_alu(warp *w, const insn *in, u32 mask);
void run_mov(warp *w, const insn *in, u32 mask);
void run_pack(warp *w, const insn *in, u32 mask);
void run_address(warp *w, const insn *in, u32 mask);

/* ---- divergence.c */
/* A split that stands at its join waits there for the others, and false is returned; the last one
   goes on for all. */
bool split_meet(warp *w, split *s);
void split_merge(warp *w, split *s, split *other); /* both stand at one instruction */
void splits_sweep(warp *w); /* empty ones go */
step run_branch(warp *w, split *s, const insn *in, u32 taken);
step run_branch_indexed(warp *w, split *s, const insn *in, u32 mask);

/* ---- warp.c */
void warp_start(cta *c, u32 index);
void warp_free(warp *w);
bool warp_step(warp *w); /* one instruction; false when no split can run */
void warp_exit(warp *w, split *s, u32 lanes, i32 pc);
bool warp_runnable(warp *w);
bool warp_part(warp *w); /* lanes that wait at joins for lanes that spin go on without them */

/* ---- schedule.c */
u64 random_next(machine *m);
void machine_run(machine *m);
