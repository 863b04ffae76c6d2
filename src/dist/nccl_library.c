/* SPDX-License-Identifier: Apache-2.0 */
/* libnccl.so.2: found, looked at and taken, or why not. */
#include <dlfcn.h>
#include <stdio.h>

#include "dist/nccl.h"

#define FUNCTION(name)                                                                             \
    {                                                                                              \
        "nccl" #name, offsetof(stk__nccl_library, name)                                            \
    }

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    FUNCTION(GetVersion), /* the first */
    FUNCTION(GetUniqueId),    FUNCTION(CommInitRankConfig), FUNCTION(CommFinalize),
    FUNCTION(CommDestroy),    FUNCTION(CommAbort),          FUNCTION(CommGetAsyncError),
    FUNCTION(GetErrorString), FUNCTION(GetLastError),       FUNCTION(AllReduce),
    FUNCTION(Reduce),         FUNCTION(ReduceScatter),      FUNCTION(AllGather),
    FUNCTION(Broadcast),      FUNCTION(GroupStart),         FUNCTION(GroupEnd)};

void stk__nccl_version_text(int version, char *text, size_t size)
{
    /* Up to 2.8: major * 1000 + minor * 100 + patch. */
    const int major = version < 10000 ? 1000 : 10000;

    snprintf(text, size, "%d.%d.%d", version / major, version % major / 100, version % 100);
}

int stk__nccl_type(stk_dtype dtype)
{
    static const struct {
        stk_dtype dtype;
        int type;
    } types[] = {{STK_INT8, STK__NCCL_INT8},       {STK_UINT8, STK__NCCL_UINT8},
                 {STK_INT32, STK__NCCL_INT32},     {STK_UINT32, STK__NCCL_UINT32},
                 {STK_INT64, STK__NCCL_INT64},     {STK_UINT64, STK__NCCL_UINT64},
                 {STK_FLOAT16, STK__NCCL_FLOAT16}, {STK_FLOAT32, STK__NCCL_FLOAT32},
                 {STK_FLOAT64, STK__NCCL_FLOAT64}, {STK_BFLOAT16, STK__NCCL_BFLOAT16}};

    for (size_t i = 0; i < STK_COUNT(types); i++)
        if (types[i].dtype == dtype)
            return types[i].type;
    return -1;
}

int stk__nccl_op(stk_combine op)
{
    return op == STK_COMBINE_MEAN  ? STK__NCCL_AVG
           : op == STK_COMBINE_MIN ? STK__NCCL_MIN
           : op == STK_COMBINE_MAX ? STK__NCCL_MAX
                                   : STK__NCCL_SUM;
}

static stk_status refuse(const char *path, const char *why, stk_error *err)
{
    return stk__fail_at(err, STK_ENOTSUP, STK_STAGE_OPTIONS, path, STK_NO_OFFSET,
                        "collectives.nccl: '%.200s' %.240s: install NCCL 2.14 or later (package "
                        "libnccl2 of NVIDIA), and set LD_LIBRARY_PATH or collectives.nccl to where "
                        "it is",
                        path, why);
}

static stk_status check_version(const char *path, stk__nccl_library *out, stk_error *err)
{
    char why[120], version[32];

    if (out->GetVersion(&out->version) != STK__NCCL_SUCCESS || out->version <= 0)
        return refuse(path, "does not say its version", err);
    stk__nccl_version_text(out->version, version, sizeof version);
    snprintf(why, sizeof why, "is NCCL %s, which has no calls that keep a deadline", version);
    return out->version < STK__NCCL_LEAST ? refuse(path, why, err) : STK_OK;
}

stk_status stk__nccl_load(const char *path, stk__nccl_library *out, stk_error *err)
{
    char why[200];

    path = path ? path : STK__NCCL_LIBRARY;
    /* It leaves threads behind, as CUDA does. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!handle) {
        const char *said = dlerror();
        snprintf(why, sizeof why, "cannot be loaded (%.150s)", said ? said : "no reason given");
        return refuse(path, why, err);
    }
    *out = (stk__nccl_library){0};
    for (size_t i = 0; i < STK_COUNT(functions); i++) {
        void *found = dlsym(handle, functions[i].name);
        memcpy((char *)out + functions[i].offset, &found, sizeof found);
        snprintf(why, sizeof why, "lacks %s", functions[i].name);
        if (!found)
            return refuse(path, why, err);
        /* The first one: an old library lacks some of the others. */
        if (i == 0)
            STK_TRY(check_version(path, out, err));
    }
    return STK_OK;
}

stk_status stk_nccl_version(const char *library, char *text, size_t size, stk_error *err)
{
    stk__nccl_library found;

    stk_error_init(err);
    if (size)
        *text = 0;
    STK_TRY(stk__nccl_load(library, &found, err));
    stk__nccl_version_text(found.version, text, size);
    return STK_OK;
}
