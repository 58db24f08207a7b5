/* The machine: a grid of CTAs, their warps, memory with its shadow, and everything that waits.

   Who may include what: `sim.h` is below all; `clock`, `memory`, `shadow` know no instructions;
   the files named after families of instructions (`access`, `lanes`, `barriers`, `mbarriers`,
   `copies`, `matrices`) implement them; `warp` fetches and diverges; `schedule` picks who runs. */
#pragma once
#include "sim.h"

typedef struct machine machine;
typedef struct cta cta;
typedef struct warp warp;

/* ---- Clocks: what happened before what ------------------------------------------------------ */

/* Agents of a CTA: for each warp one for its threads and one for each of its asynchronous
   channels, then one for each named barrier and mbarrier, whose time is the number of completed
   phases. */
enum {
    CHANNEL_THREADS, /* accesses of its lanes; time advances at every write, release and fence */
    CHANNEL_CP_ASYNC, /* cp.async; time counts commit groups */
    CHANNEL_BULK_READ, /* bulk stores have read their source; time counts bulk groups */
    CHANNEL_BULK_WRITE, /* bulk stores are visible */
    CHANNEL_WGMMA, /* wgmma has read its operands; time counts wgmma groups */
    CHANNELS
};
enum { NAMED_BARRIERS = 16, AGENT_BITS = 10, MAX_AGENTS = 1 << AGENT_BITS };

/* What is known of one agent. Everything up to `full` is known; of the lanes in `lanes` also
   everything up to `part`. The next is the same for what the async proxy can see, in shared and in
   global memory: ordinary accesses count there only when a proxy fence of that space stood behind
   them. `seen` orders no memory: it tells
   in which phase an arrival must count, whatever carried the news. */
typedef struct {
    u32 full, part, lanes;
    u32 async_full, async_part, async_lanes;
    u32 global_full, global_part, global_lanes;
    u32 seen; /* of barriers: phases that must be complete by cause and effect alone */
    u32 init; /* of mbarriers: inits that fence.mbarrier_init has published */
} knowledge;

/* Knowledge of every agent of one CTA, grown on demand. */
typedef struct {
    u32 count;
    knowledge of[];
} section;

/* A vector clock: sections by CTA, NULL where nothing is known. */
typedef struct {
    section **sections;
    u32 ctas;
} vclock;

void clock_free(vclock *clock);
void clock_join(vclock *into, const vclock *from);
bool clock_is_empty(const vclock *clock);
knowledge *clock_at(vclock *clock, u32 cta, u32 agent); /* grows */
const knowledge *clock_look(const vclock *clock, u32 cta, u32 agent); /* never NULL */
/* Everything known becomes known to the async proxy, in shared or global memory or both. */
void clock_fence(vclock *clock, bool shared, bool global);
void clock_join_seen(vclock *into, const vclock *from); /* of barriers, only what is `seen` */
void knowledge_join(knowledge *into, const knowledge *from);

/* ---- Memory ----------------------------------------------------------------------------------- */

/* The shadow of one byte: who wrote it last, and a list of accesses that are not yet ordered
   before a later one: reads, and atomic writes. */
typedef struct {
    u32 who; /* agent << 5 | lane; see WHO_* */
    u32 time;
    u32 pc; /* low 24 bits; SHADOW_* above */
    u32 list; /* index into machine.accesses, 0 for none */
} cell;

/* One entry of such a list: the same access by some lanes of a warp. */
typedef struct {
    u32 who, lanes, time, pc, next;
} shadow_access;

enum {
    SHADOW_PC = 0xffffff,
    SHADOW_POISON = 1 << 24, /* the bytes hold undefined bits */
    SHADOW_ATOMIC = 1 << 25, /* a strong access: races with weak ones only */
    SHADOW_CTA_SCOPE = 1 << 26, /* ... of CTA scope */
    SHADOW_WRITE = 1 << 27, /* in a list: an atomic write */
};
#define WHO_NOBODY 0u /* never written */
#define WHO_FLIGHT 0x80000000u /* an asynchronous copy that has not landed; the rest is its number */

enum { PAGE = 4096 };
typedef enum { REGION_BUFFER, REGION_SHARED, REGION_MODULE, REGION_CONST, REGION_PARAM } region_kind;

/* A range of addresses with its bytes and their shadow, in pages made on first use. */
typedef struct {
    region_kind kind;
    u8 *data;
    u64 base, start, size; /* bytes from `base + start` to `base + size` exist */
    cell **pages;
    u8 *page_flags; /* PAGE_WRITTEN, PAGE_TRACKED */
    u32 id; /* of a buffer; of the CTA for shared memory */
    bool defined; /* bytes that nobody wrote are defined */
    bool read_only;
} region;
enum {
    PAGE_WRITTEN = 1, /* written in this launch */
    PAGE_TRACKED = 2, /* reads are recorded */
    PAGE_READ = 4, /* read while not tracked */
};

/* ---- Rendezvous ------------------------------------------------------------------------------- */

typedef struct {
    u32 address; /* in shared memory of its CTA */
    bool live, invalidated;
    u32 inits; /* mbarrier.init so far */
    u32 agent;
    u32 expected, pending;
    i64 transactions;
    u32 phase, first_phase; /* completed phases, over all lives of this address; at its init */
    u32 init_who, init_time, init_pc;
    u32 last_tx_phase, observed; /* completed-phase counts */
    u32 remote_cta, remote_agent, remote_lane, remote_time, remote_pc; /* last arrival from a peer */
    vclock arrivals_cta, arrivals_cluster; /* since the phase began, and all before */
    vclock done_cta, done_cluster; /* what a waiter of the last completed phase learns */
    u64 cycle, done_cycle;
    u32 arrived_pc[8], arrived_warp[8], arrived_count;
} mbarrier;

typedef struct {
    u32 expected; /* threads; 0 while nobody arrived */
    u32 arrived;
    bool whole_cta; /* it names no count: all threads that have not exited */
    u32 generation; /* completed ones */
    u64 warps; /* that arrived in this generation */
    u32 votes_true, votes;
    u32 first_pc, first_warp;
    u32 last_votes_true, last_votes;
    vclock arrivals, done;
    u64 cycle, done_cycle;
} named_barrier;

/* ---- Warps ------------------------------------------------------------------------------------ */

typedef enum {
    SPLIT_READY,
    SPLIT_MEMBERS, /* a .sync instruction waits for the lanes that it names */
    SPLIT_BARRIER, /* bar.sync */
    SPLIT_MBARRIER, /* mbarrier.try_wait */
    SPLIT_CLUSTER, /* barrier.cluster.wait */
    SPLIT_GROUP, /* wait_group of cp.async, bulk or wgmma */
    SPLIT_REGISTERS, /* setmaxnreg.inc */
    SPLIT_JOIN, /* lanes wait at a point of reconvergence: no split of its own */
} split_state;

/* Lanes that execute together. `tainted` ones are here because of a branch on undefined bits: what
   they compute is undefined until they are back at the branch's point of reconvergence. */
typedef struct {
    u32 mask, tainted;
    i32 pc;
    i32 join; /* index into warp.joins, -1 for none */
    split_state state;
    u32 wait_id; /* named barrier id, mbarrier address, group count */
    u32 wait_generation; /* of the barrier, parity or phase of the mbarrier */
    bool released; /* the wait is over: finish the instruction */
} split;

typedef struct {
    u32 expected, arrived;
    u32 tainted; /* before the branch */
    i32 pc, parent;
    bool used;
} join_point;

/* Knowledge that only some lanes of a warp have. */
typedef struct {
    u32 lanes;
    vclock clock;
} lane_clock;

enum { MAX_LANE_CLOCKS = 32 };

struct warp {
    machine *m;
    cta *cta;
    u32 index; /* within the CTA */
    u32 live; /* lanes that have not exited */
    u32 initial; /* lanes that exist */
    split splits[2 * LANES]; /* some may be empty until the next step */
    u32 split_count, current;
    join_point *joins;
    u32 join_count;

    row *registers;
    u32 *undefined; /* lanes of each register that hold undefined bits */
    u32 *origin; /* pc at which they came to be undefined */
    u32 *busy; /* wgmma group that may still write or read each register */
    u32 *touched; /* serial of the last instruction other than wgmma that wrote it */
    u32 serial, fence_serial; /* instruction count; at the last wgmma.fence */
    u32 carry;
    u32 doubtful; /* lanes whose results are undefined whatever the operands: guard or taint */
    u32 doubt_pc; /* where that guard came to be undefined */
    u8 *local, *local_undefined;

    vclock known; /* to all lanes */
    lane_clock lane_clocks[MAX_LANE_CLOCKS];
    u32 lane_clock_count;
    u32 time; /* of its threads */
    vclock released_by_fence; /* what a relaxed write publishes after a release fence */
    u32 released_lanes;
    u8 released_scope;
    vclock to_acquire[3]; /* what relaxed reads of `acquire_lanes` found in this CTA, cluster, grid */
    u32 acquire_lanes; /* ... for an acquire fence */
    vclock inits; /* what fence.mbarrier_init published */
    bool has_released;

    /* Asynchronous groups: `committed` closed ones, `waited` those whose end was waited for. */
    u32 cp_number; /* of the cp.async group that is open; it closes at a commit or an arrive */
    u32 cp_waited, cp_commits, cp_commit_number[64];
    bool cp_open;
    u32 cp_lanes; /* that issued any */
    u32 bulk_committed, bulk_lanes; /* closed groups; lanes that issued any */
    u32 bulk_open; /* ... and have not committed it */
    u32 bulk_read_waited, bulk_issued; /* group numbers: waited for; last with a copy in it */
    u32 wgmma_committed, wgmma_waited, wgmma_issued, wgmma_total;
    u32 register_count; /* of setmaxnreg */
    u32 setmaxnreg_count;
    i32 setmaxnreg_pc; /* the last one */
    u8 setmaxnreg_log[16];
    bool arrived_cluster;
    u32 cluster_generation;

    u64 executed, cycle;
    u64 landed_cycle; /* of its copies that complete on groups */
    u64 idle_since; /* machine.progress when it last did something that others can see */
    u64 idle; /* instructions since then */
    u64 spin_hash, spin_check; /* of the registers; idle instructions at the next look */
    u32 spin_looks;
    i32 spin_pc;
    bool spinning;
    u32 issued_copies;
    u64 last_turn;
};

struct cta {
    machine *m;
    u32 index, cluster, rank; /* linear index in the grid; cluster; rank in it */
    u32 id[3], cluster_id[3], rank_id[3];
    warp *warps;
    u32 warp_count, live_warps;
    u32 resident_sm;
    region shared;
    mbarrier *barriers;
    u32 barrier_count;
    u16 *barrier_at; /* index + 1 by address / 8 */
    named_barrier named[NAMED_BARRIERS];
    i64 register_pool;
    bool started, exited;
};

/* One cluster's barrier. */
typedef struct {
    u32 arrived, generation;
    vclock arrivals, done;
    u64 cycle, done_cycle;
} cluster_barrier;

/* ---- Asynchronous effects ---------------------------------------------------------------------- */

typedef struct {
    u64 global;
    u32 shared, bytes;
    bool inside;
} copy_run;

typedef enum { EFFECT_LOAD, EFFECT_STORE, EFFECT_REDUCE, EFFECT_CP_ASYNC, EFFECT_CP_ARRIVE } effect_kind;

typedef struct {
    effect_kind kind;
    u32 number;
    warp *by;
    u32 lane, pc;
    u32 group; /* of the channel */
    u32 destination_count;
    u32 destination_cta[16]; /* linear indices: multicast */
    u32 source_cta; /* shared to shared copies */
    bool from_shared;
    u8 *payload; /* st.async carries its data */
    u32 barrier_address;
    u32 total_bytes;
    u8 mode, type; /* of a reduction */
    struct tensor_map *map; /* of a tensor copy */
    u32 arrive_lanes; /* EFFECT_CP_ARRIVE */
    bool noinc;
    u64 issued_cycle, ready_cycle;
    u32 run_count;
    copy_run *runs;
    vclock seen; /* by its issuer */
} effect;

/* ---- The machine ------------------------------------------------------------------------------- */

typedef enum {
    FINDING_DEADLOCK, FINDING_RACE, FINDING_PROXY_FENCE, FINDING_INIT_FENCE, FINDING_WGMMA_REGISTER,
    FINDING_WGMMA_OVERWRITE, FINDING_ARRIVAL_OVERFLOW, FINDING_ARRIVAL_MISSING,
    FINDING_ARRIVAL_UNORDERED, FINDING_PHASE_SKIPPED, FINDING_TX_MISMATCH, FINDING_UNINITIALIZED_BARRIER,
    FINDING_INVALIDATED_BARRIER, FINDING_REINITIALIZED_BARRIER, FINDING_NAMED_COUNT,
    FINDING_NAMED_CLASH, FINDING_SETMAXNREG, FINDING_OUT_OF_BOUNDS, FINDING_MISALIGNED,
    FINDING_UNINITIALIZED, FINDING_EXIT_OUTSTANDING, FINDING_DIVERGENT, FINDING_ILLEGAL_ARGUMENT,
    FINDING_TRAP, FINDING_UNSUPPORTED, FINDING_BUDGET, FINDING_KINDS
} finding_kind;

enum { MESSAGE_BYTES = 600, MAX_FINDINGS = 64 };

/* One finding, as warpsmith/sim/load.py reads it. */
typedef struct {
    u32 kind;
    i32 pc, other_pc;
    i32 cta, warp, lane;
    i32 other_cta, other_warp, other_lane;
    i32 buffer; /* -1 when none */
    u64 address; /* all ones when none */
    i32 barrier, phase;
    u32 count; /* how often */
    char message[MESSAGE_BYTES];
} finding;

typedef enum { ORDER_ROUND_ROBIN, ORDER_PRODUCER_FIRST, ORDER_CONSUMER_FIRST, ORDER_RANDOM } order;

typedef struct {
    u64 instructions, cycles, waits, blocked_waits, wait_cycles;
    u64 global_read, global_written, shared_read, shared_written, copied_in, copied_out, peer;
    u64 max_in_flight;
} statistics;

typedef enum {
    EVENT_WAIT, /* a warp waited from `begin` to `end` */
    EVENT_STUCK, /* it waits still when the run ends */
    EVENT_EXIT,
    EVENT_COPY, /* issued at `begin`, landed at `end`: `value` bytes */
    EVENT_PHASE, /* of an mbarrier: complete */
    EVENT_GENERATION /* of a named barrier: complete */
} event_kind;

/* One event of a timeline, as warpsmith/sim/records.py reads it; times in cycles. */
typedef struct {
    u32 kind, cta;
    i32 warp, pc; /* -1 where there is none */
    u64 begin, end;
    u64 executed; /* instructions of the whole run when it was noted: its place in the schedule */
    u64 value;
    i32 barrier, phase; /* an mbarrier's address or a named barrier's number; -1 for none */
    u32 number; /* of a copy */
    u32 unused;
} trace_event;

/* A clock attached to a word in memory by release operations. */
typedef struct {
    u64 address;
    vclock clock;
    u8 scope;
    u32 cta;
} location;

struct machine {
    /* The program. */
    const insn *code;
    u32 code_count;
    const operand *operands;
    const i32 *targets;
    u32 register_count, local_bytes;
    bool has_wgmma, has_branch_back;
    /* The launch. */
    u32 grid[3], block[3], cluster[3];
    u32 threads, warps_per_cta, cta_count, cluster_size;
    u32 shared_static, shared_total;
    u32 entry_registers;
    region *buffers;
    u32 buffer_count;
    region module, constant, params;
    cta *ctas;
    cluster_barrier *clusters;
    u32 resident, next_cta, done_ctas;
    u32 first_cta; /* all before it have exited */
    /* The shadow. */
    shadow_access *accesses;
    u32 access_count, access_capacity, access_free;
    struct map_fence *map_fences; /* fence.proxy.tensormap by address */
    u32 map_fence_count;
    bool rerun; /* a page was read untracked, then written: run again with what is known now */
    location *locations;
    u32 location_count, location_capacity;
    /* Effects in flight. */
    effect **flights;
    u32 flight_count, flight_capacity, flight_number;
    const effect *issuing; /* not yet among them */
    /* The schedule. */
    order order;
    u64 seed, budget, progress;
    bool stopped;
    /* What was seen. */
    finding *findings;
    u32 finding_count;
    statistics stats;
    /* Device output, and events for a timeline: NULL where nobody asked for them. */
    char *printed;
    u64 printed_size, printed_capacity;
    trace_event *events;
    u32 event_count, event_capacity;
    u64 events_lost;
};

/* ---- report.c */
finding *report(machine *m, finding_kind kind, const warp *w, i32 lane, i32 pc, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* Counts it once more when it was; a hot path need not find words for it. */
bool reported_before(machine *m, finding_kind kind, i32 pc);
/* "warp 3 lane 5 of CTA 0" and so on; `who` as in cells. */
const char *describe_who(const machine *m, u32 who, u32 time, char *text, size_t size);
void split_who(const machine *m, u32 who, i32 *cta_index, i32 *warp_index, i32 *lane);

/* ---- trace.c: each does nothing unless events are kept. */
void trace_wait(const warp *w, const split *s, u64 begin); /* it is over */
void trace_exit(const warp *w, i32 pc);
void trace_landing(machine *m, const effect *e);
void trace_phase(machine *m, u32 cta_index, const mbarrier *b);
void trace_generation(machine *m, u32 cta_index, u32 id, const named_barrier *b);
void trace_finish(machine *m);

/* ---- memory.c */
typedef struct {
    region *in; /* NULL when there is none */
    u64 offset; /* within in->data */
} place;
place memory_find(machine *m, const cta *from, u64 generic, u32 bytes);
u64 generic_address(int space, u64 address);
void region_open(region *r, region_kind kind, u8 *data, u64 base, u64 start, u64 size, bool defined);
void region_close(machine *m, region *r);
cell *region_cells(region *r, u64 offset); /* cells of the rest of the page */

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
bool shadow_undefined(region *r, u64 offset, u32 bytes);
void shadow_write(const actor *a, region *r, u64 offset, u32 bytes, bool poison);
/* Records of effect `number` become records of `agent` at `time`. */
void shadow_land(machine *m, region *r, u64 offset, u32 bytes, u32 number, u32 who, u32 time,
                 bool poison);
u32 who_of(const cta *c, u32 agent, u32 lane);

/* ---- sync.c: how knowledge moves */
void acquire(warp *w, u32 lanes, const vclock *from);
void release_into(warp *w, u32 lanes, vclock *into);
void proxy_fence(warp *w, u32 lanes, bool shared, bool global);
void warp_synchronize(warp *w, u32 lanes);
u32 known_phase(const warp *w, u32 lane, u32 cta, u32 agent);
void see_into(const warp *w, u32 lanes, vclock *into); /* phases only */
location *location_at(machine *m, u64 address, bool make);

/* ---- operands.c: `i` counts an instruction's operands, vectors spread out. */
const operand *operand_at(const warp *w, const insn *in, u32 i);
const u64 *source(warp *w, const insn *in, u32 i, row scratch, u32 mask); /* a row of values */
u64 scalar(warp *w, const insn *in, u32 i, u32 lane); /* the value of one lane */
u64 address_of(warp *w, const insn *in, u32 i, u32 lane);
u32 undefined_of(const warp *w, const insn *in, u32 i);
u64 *destination(warp *w, const insn *in, u32 i); /* NULL for a sink */
void define(warp *w, const insn *in, u32 i, u32 mask, u32 undefined, u32 origin);
/* Report lanes of `mask` in which operand `i` holds undefined bits; `what` is its part. */
void require_defined(warp *w, const insn *in, u32 i, u32 mask, const char *what);
i32 pc_of(const warp *w, const insn *in);
u64 special(const warp *w, int which, u32 lane);
u32 type_bytes(int type);
int first_lane(u32 mask);

/* ---- doubt.c */
/* Lanes of an arithmetic result that its undefined operands can change. */
u32 reaching_result(warp *w, const insn *in, u32 first, const u64 *const *a, u32 mask, u32 undefined);
/* Lanes to execute an instruction for when the guard of some is undefined, or a branch that led here
   was; reports what else than a register depends on that. */
u32 judge_doubt(warp *w, split *s, const insn *in, u32 mask, u32 doubtful);

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

/* ---- warp.c */
void warp_start(cta *c, u32 index);
void warp_free(warp *w);
bool warp_step(warp *w); /* one instruction; false when no split can run */
void warp_exit(warp *w, split *s, u32 lanes, i32 pc);
void split_merge(warp *w, split *s, split *other); /* both stand at one instruction */
bool warp_runnable(warp *w);
bool warp_part(warp *w); /* lanes that wait at joins for lanes that spin go on without them */

/* ---- schedule.c */
u64 random_next(machine *m);
void machine_run(machine *m);
