/* Everything that a launch consists of: barriers, warps, CTAs, copies in flight, findings. */
#pragma once
#include "memory/clock.h"
#include "memory/region.h"
#include "sim.h"

typedef struct machine machine;
typedef struct cta cta;
typedef struct warp warp;

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
    /* Last arrival from a peer, and completed phases before it. */
    u32 remote_cta, remote_agent, remote_lane, remote_time, remote_pc, remote_phase;
    vclock arrivals_cta, arrivals_cluster; /* since the phase began, and all before */
    vclock done_cta, done_cluster; /* what a waiter of the last completed phase learns */
    vclock arrivals_read, done_read; /* ... of reads alone, by peers that released in their CTA */
    u64 cycle, done_cycle;
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

/* Lanes that execute together. */
typedef struct {
    u32 mask;
    i32 pc;
    i32 join; /* index into warp.joins, -1 for none */
    split_state state;
    u32 wait_id; /* named barrier id, mbarrier address, group count */
    u32 wait_generation; /* of the barrier, parity or phase of the mbarrier */
    bool released; /* the wait is over: finish the instruction */
} split;

typedef struct {
    u32 expected, arrived;
    i32 pc, parent;
    bool used;
} join_point;

/* Knowledge that only some lanes of a warp have. */
typedef struct {
    u32 lanes;
    vclock clock;
} lane_clock;

/* What a signal would publish if a fence of its own thread stood right before it (memory/signals.c). */
typedef struct {
    vclock clock;
    u32 who, pc; /* of the last such signal */
} unfenced;

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
    u32 *known_half[2]; /* of these, lanes whose low or high half is defined all the same */
    u32 *origin; /* pc at which they came to be undefined */
    u32 *busy; /* wgmma group that may still write or read each register */
    u32 *touched; /* serial of the last instruction but wgmma that read or wrote it */
    u32 awaited; /* lanes that have waited for the kernel before */
    u32 serial, fence_serial; /* instruction count; at the last wgmma.fence */
    u32 carry;
    u32 undefined_guard; /* lanes whose results are undefined whatever the operands */
    u8 *local, *local_undefined; /* bytes of each lane; 1 where they are undefined */

    vclock known; /* to all lanes */
    vclock known_reads; /* by CTAs of the cluster, to `reader_lanes`: over, and so not in the way */
    u32 reader_lanes;
    lane_clock lane_clocks[MAX_LANE_CLOCKS];
    u32 lane_clock_count;
    u32 time; /* of its threads */
    vclock released_by_fence; /* what a relaxed write publishes after a release fence */
    u32 released_lanes;
    u8 released_scope;
    u64 learned_version; /* of the location that a relaxed read saw last */
    vclock to_acquire[3]; /* what relaxed reads of `acquire_lanes` found in this CTA, cluster, grid */
    u32 acquire_lanes; /* ... for an acquire fence */
    unfenced unfenced; /* what a relaxed read found of signals without a fence */
    u64 signal_version; /* of the location in which it found them last */
    vclock inits; /* what fence.mbarrier_init published */
    bool has_released;

    /* Asynchronous groups: `committed` closed ones, `waited` those whose end was waited for. */
    u32 cp_number; /* of the cp.async group that is open; it closes at a commit or an arrive */
    u32 cp_commits, cp_commit_number[64];
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

    u64 cycle;
    u64 landed_cycle; /* of its copies that complete on groups */
    u64 idle_since; /* machine.progress when it last did something that others can see */
    u64 idle; /* instructions since then */
    u64 spin_hash, spin_check; /* of the registers; idle instructions at the next look */
    u32 spin_looks;
    i32 spin_pc;
    bool spinning, spun; /* it waits for anything to change; it did so at `spin_pc` when it last waited */
    u64 woken; /* machine.progress when it last began the loop in which it had waited */
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
    vclock fenced; /* what stood before a releasing fence of its own thread */
    unfenced unfenced; /* what this CTA would know if the signals that it has seen were released */
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
    FINDING_EARLY_ACCESS, FINDING_TRAP, FINDING_UNSUPPORTED, FINDING_BUDGET, FINDING_KINDS
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
    EVENT_GENERATION, /* of a named barrier: complete */
    EVENT_ARRIVAL, /* a warp arrives at an mbarrier: `value` lanes, in `phase`, of CTA `number` */
    EVENT_OVER /* a warp learns that a phase of an mbarrier is over, whether it waited or not */
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
    u64 address, version; /* a number of its own for every content of the clock */
    vclock clock;
    unfenced unfenced;
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
    bool early; /* the kernel before may still run, until this one has waited for it */
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
    u32 held_ctas; /* that have their place, and are still to start */
    /* The shadow. */
    shadow_access *accesses;
    u32 access_count, access_capacity, access_free;
    struct map_fence *map_fences; /* fence.proxy.tensormap by address */
    u32 map_fence_count;
    bool rerun; /* a page was read untracked, then written: run again with what is known now */
    location *locations;
    u32 location_count, location_capacity;
    u64 location_version;
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
