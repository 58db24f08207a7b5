/* A driver and an exchange of tensors for tests of the launcher without a GPU.
 *
 * Tensors of the host pass for those of device `device_told`. Launches go to `seen`, where it is set. */
#include <string.h>

#include "abi.h"

int32_t device_told = 0;
int capture_told = 0, refuse_launch = -1;
void *stream_told = NULL, *context_told = (void *)0xC0, *launched_in = NULL, *encoded_in = NULL;
static void *below[8];
int launches = 0, pushed = 0, encoded = 0, asked = 0;
void (*seen)(const CUlaunchConfig *, void *, void **) = NULL;
int (*real_tensor)(void *, DLTensor *) = NULL;

static int tensor(void *object, DLTensor *out)
{
    asked++;
    int status = real_tensor(object, out);
    out->device.device_type = kDLCUDA;
    out->device.device_id = device_told;
    return status;
}

static int stream(int32_t type, int32_t device, void **out)
{
    *out = stream_told;
    return 0;
}

static DLPackExchangeAPI exchange = {{1, 3, NULL}, NULL, NULL, NULL, tensor, stream};

DLPackExchangeAPI *exchange_over(const DLPackExchangeAPI *real)
{
    real_tensor = real->dltensor_from_py_object_no_sync;
    return &exchange;
}

int cuLaunchKernelEx(const CUlaunchConfig *config, void *function, void **parameters, void **extra)
{
    if (launches == refuse_launch)
        return 400;
    launches++;
    launched_in = context_told;
    if (seen)
        seen(config, function, parameters);
    return 0;
}

int cuStreamIsCapturing(void *stream, int *status)
{
    *status = capture_told;
    return 0;
}

int cuCtxGetCurrent(void **context)
{
    *context = context_told;
    return 0;
}

int cuCtxPushCurrent_v2(void *context)
{
    below[pushed++] = context_told;
    context_told = context;
    return 0;
}

int cuCtxPopCurrent_v2(void **context)
{
    *context = context_told;
    context_told = below[--pushed];
    return 0;
}

/* The address, and a digest of all else. */
int cuTensorMapEncodeTiled(
    void *map, int type, uint32_t rank, void *address, const uint64_t *sizes,
    const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
    int swizzle, int promotion, int fill)
{
    uint64_t words[16] = {(uint64_t)address, rank};
    encoded++;
    encoded_in = context_told;
    words[2] = (uint64_t)type << 24 | interleave << 18 | swizzle << 12 | promotion << 6 | fill;
    for (uint32_t d = 0; d < rank; d++) {
        words[3 + d] = sizes[d] << 24 | box[d] << 8 | steps[d];
        words[8 + d] = d ? strides[d - 1] : 0;
    }
    memcpy(map, words, sizeof words);
    return 0;
}
