/* Regions of memory and where an address lies. */
#include "machine/machine.h"

#include <stdlib.h>
#include <string.h>

void region_open(region *r, region_kind kind, u8 *data, u64 base, u64 start, u64 size,
                 bool defined) {
    *r = (region){.kind = kind, .data = data, .base = base, .start = start, .size = size,
                  .defined = defined};
    u64 pages = size / PAGE + 1;
    r->pages = calloc(pages, sizeof *r->pages);
    r->page_flags = calloc(pages, 1);
}

void region_close(machine *m, region *r) {
    for (u64 p = 0; r->pages && p < r->size / PAGE + 1; p++)
        if (r->pages[p]) cells_free(m, r->pages[p]);
    free(r->pages);
    free(r->page_flags);
    r->pages = NULL;
    r->page_flags = NULL;
}

u64 generic_address(int space, u64 address) {
    switch (space) {
    case SPACE_SHARED:
    case SPACE_SHARED_CLUSTER: return WINDOW_SHARED + (u32)address;
    case SPACE_LOCAL: return WINDOW_LOCAL + (u32)address;
    case SPACE_PARAM: return WINDOW_PARAM + (u32)address;
    default: return address;
    }
}

static place within(region *r, u64 address, u32 bytes) {
    u64 offset = address - r->base;
    bool inside = address >= r->base && offset >= r->start && offset + bytes <= r->size;
    return (place){inside ? r : NULL, offset};
}

place memory_find(machine *m, const cta *from, u64 address, u32 bytes) {
    if (address >= WINDOW_BUFFERS) {
        u64 index = (address - WINDOW_BUFFERS) >> 32;
        if (index == 0 || index > m->buffer_count) return (place){0};
        return within(&m->buffers[index - 1], address, bytes);
    }
    if (address >= WINDOW_MODULE) return within(&m->module, address, bytes);
    if (address >= WINDOW_CONST) return within(&m->constant, address, bytes);
    if (address >= WINDOW_PARAM) return within(&m->params, address, bytes);
    if (address >= WINDOW_SHARED && address < WINDOW_SHARED + (1ull << 32)) {
        u32 offset = (u32)(address - WINDOW_SHARED), rank = offset >> 24;
        if (rank > m->cluster_size) return (place){0};
        cta *owner = rank ? &m->ctas[from->index - from->rank + rank - 1] : (cta *)from;
        return within(&owner->shared, WINDOW_SHARED + (offset & 0xffffff), bytes);
    }
    return (place){0};
}

/* How many bytes of an access lie behind the end of a buffer that is open there, in the 16 that it ends
   in: on a GPU they are there to be read, since memory is given out in larger pieces, and may be anything.
   Here they are all ones, which is NaN. */
u32 bytes_behind(const machine *m, u64 address, u32 bytes) {
    u64 index = address < WINDOW_BUFFERS ? 0 : (address - WINDOW_BUFFERS) >> 32;
    if (index == 0 || index > m->buffer_count) return 0;
    const region *r = &m->buffers[index - 1];
    u64 last = address + bytes, end = r->base + r->size;
    bool rest = last > end && last <= ((end + 15) & ~15ull) && bytes > last - end;
    return r->open && rest ? (u32)(last - end) : 0;
}
