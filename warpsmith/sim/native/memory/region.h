/* Memory as it lies: ranges of bytes, with the shadow that remembers who touched each byte. */
#pragma once
#include "sim.h"

/* The shadow of a run of bytes: who wrote them last, and a list of accesses that are not yet ordered
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

enum { PAGE = 4096, RUN_BYTES = 16 };

/* The cells of a page. A run begins with every 16 bytes, and where bytes were touched apart. */
typedef struct {
    cell first[PAGE / RUN_BYTES]; /* of the runs with which 16 bytes begin */
    cell *rest[PAGE / RUN_BYTES]; /* of the others of these by their first bytes, or NULL */
    u16 begins[PAGE / RUN_BYTES]; /* these first bytes, a bit each */
} cell_page;

typedef enum { REGION_BUFFER, REGION_SHARED, REGION_MODULE, REGION_CONST, REGION_PARAM } region_kind;

/* A range of addresses with its bytes and their shadow, in pages made on first use. */
typedef struct {
    region_kind kind;
    u8 *data;
    u64 base, start, size; /* bytes from `base + start` to `base + size` exist */
    cell_page **pages;
    u8 *page_flags; /* PAGE_TRACKED, PAGE_READ */
    u32 id; /* of a buffer; of the CTA for shared memory */
    bool defined; /* bytes that nobody wrote are defined */
    bool read_only;
    bool open; /* the rest of the 16 bytes that it ends in may be read */
    bool settled; /* the kernel before does not write it */
} region;
enum {
    PAGE_TRACKED = 1, /* reads are recorded */
    PAGE_READ = 2, /* read while not tracked */
};
