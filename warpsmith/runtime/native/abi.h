/* What the launcher relies on of others' binary interfaces: DLPack's exchange API (version 1.3,
 * dmlc/dlpack), and the part of the CUDA driver (12 and later) that launches kernels. Names are
 * theirs; nothing here is linked, all functions come as addresses. */
#ifndef WARPSMITH_ABI_H
#define WARPSMITH_ABI_H

#include <stdint.h>

/* --- DLPack --------------------------------------------------------------------------------- */

enum { kDLCUDA = 2 };

typedef struct {
    int32_t device_type, device_id;
} DLDevice;

typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;

typedef struct {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides; /* strides count elements */
    uint64_t byte_offset;
} DLTensor;

typedef struct {
    struct {
        uint32_t major, minor;
        void *previous;
    } header;
    void *managed_tensor_allocator;
    void *managed_tensor_from_py_object_no_sync;
    void *managed_tensor_to_py_object_no_sync;
    int (*dltensor_from_py_object_no_sync)(void *object, DLTensor *out);
    int (*current_work_stream)(int32_t device_type, int32_t device_id, void **out);
} DLPackExchangeAPI;

/* --- CUDA driver: every function returns 0 where it succeeds -------------------------------------- */

/* Of attributes that are switches: CU_LAUNCH_ATTRIBUTE_COOPERATIVE is 2,
   CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION 6. */

typedef struct {
    unsigned id, padding;
    union {
        int on;
        char bytes[64];
    } value;
} CUlaunchAttribute;

typedef struct {
    unsigned grid[3], block[3], shared_bytes;
    void *stream;
    CUlaunchAttribute *attributes;
    unsigned attribute_count;
} CUlaunchConfig;

typedef struct {
    int (*cuLaunchKernelEx)(const CUlaunchConfig *, void *function, void **parameters, void **extra);
    int (*cuStreamIsCapturing)(void *stream, int *status); /* status 0: it is not */
    int (*cuCtxGetCurrent)(void **context);
    int (*cuCtxPushCurrent)(void *context);
    int (*cuCtxPopCurrent)(void **context);
    int (*cuTensorMapEncodeTiled)(
        void *map, int type, uint32_t rank, void *address, const uint64_t *sizes,
        const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
        int swizzle, int promotion, int fill);
} Driver;

#endif
