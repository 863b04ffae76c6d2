/* libnccl.so.2 -> its functions; calls of ranks on buffers of a device -> work on its stream */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_DIST_NCCL_H
#define STK_SRC_DIST_NCCL_H

#include "device/device.h"
#include "dist/collectives.h"

/*
 * What Stoker uses of NCCL's binary interface, so that no header of it is needed to build. Names,
 * arguments and numbers are those that NVIDIA publishes: nccl.h (github.com/NVIDIA/nccl,
 * src/nccl.h.in) and the user guide (docs.nvidia.com/deeplearning/nccl, "NCCL API"). They are the
 * same in all releases from STK__NCCL_LEAST to 2.28. Of CUDA nothing is needed: a cudaStream_t is a
 * pointer.
 */

#define STK__NCCL_LIBRARY "libnccl.so.2"

/* NCCL_VERSION(2, 14, 0), since 2.9 major * 10000 + minor * 100 + patch: the first whose calls need
 * not block (ncclCommInitRankConfig, ncclCommFinalize), without which no deadline can be kept. */
enum { STK__NCCL_LEAST = 21400 };

/* ncclResult_t: 1 to 6 and above 7 are failures. */
enum { STK__NCCL_SUCCESS = 0, STK__NCCL_IN_PROGRESS = 7 };

/* ncclRedOp_t; ncclAvg since 2.10. */
enum { STK__NCCL_SUM = 0, STK__NCCL_MAX = 2, STK__NCCL_MIN = 3, STK__NCCL_AVG = 4 };

/* ncclDataType_t; ncclBfloat16 since 2.10. */
enum {
    STK__NCCL_INT8 = 0,
    STK__NCCL_UINT8 = 1,
    STK__NCCL_INT32 = 2,
    STK__NCCL_UINT32 = 3,
    STK__NCCL_INT64 = 4,
    STK__NCCL_UINT64 = 5,
    STK__NCCL_FLOAT16 = 6,
    STK__NCCL_FLOAT32 = 7,
    STK__NCCL_FLOAT64 = 8,
    STK__NCCL_BFLOAT16 = 9
};

/* ncclUniqueId, which is handed over by value. */
typedef struct stk__nccl_id {
    char bytes[128]; /* NCCL_UNIQUE_ID_BYTES */
} stk__nccl_id;

/* ncclConfig_t as 2.14 had it: later ones read as much as `size` says, and take what came later as
 * not given where `version` is below theirs (src/init.cc, parseCommConfig). */
typedef struct stk__nccl_config {
    size_t size;
    unsigned magic, version; /* 0xcafebeef; of these members */
    int blocking;
} stk__nccl_config;

#define STK__NCCL_MAGIC 0xcafebeefu

/* Its functions, without "nccl". `comm` is an ncclComm_t, `stream` a cudaStream_t. */
typedef struct stk__nccl_library {
    int version; /* 22809: 2.28.9 */
    int (*GetVersion)(int *version);
    int (*GetUniqueId)(stk__nccl_id *id);
    int (*CommInitRankConfig)(void **comm, int num_ranks, stk__nccl_id id, int rank,
                              stk__nccl_config *config);
    int (*CommFinalize)(void *comm);
    int (*CommDestroy)(void *comm);
    int (*CommAbort)(void *comm);
    int (*CommGetAsyncError)(void *comm, int *result);
    const char *(*GetErrorString)(int result);
    const char *(*GetLastError)(void *comm);
    int (*AllReduce)(const void *from, void *to, size_t count, int type, int op, void *comm,
                     void *stream);
    int (*Reduce)(const void *from, void *to, size_t count, int type, int op, int root, void *comm,
                  void *stream);
    int (*ReduceScatter)(const void *from, void *to, size_t count_of_one, int type, int op,
                         void *comm, void *stream);
    int (*AllGather)(const void *from, void *to, size_t count_of_one, int type, void *comm,
                     void *stream);
    int (*Broadcast)(const void *from, void *to, size_t count, int type, int root, void *comm,
                     void *stream);
    int (*GroupStart)(void);
    int (*GroupEnd)(void);
} stk__nccl_library;

/* ---- nccl_library.c ---- */

/* Load it. `path` NULL: as the loader of the system finds it. It stays until the process ends. */
stk_status stk__nccl_load(const char *path, stk__nccl_library *out, stk_error *err);
/* "2.28.9" */
void stk__nccl_version_text(int version, char *text, size_t size);
/* The number of a type; -1: NCCL has none of it. */
int stk__nccl_type(stk_dtype dtype);
int stk__nccl_op(stk_combine op);

/* ---- nccl.c ---- */

/* A call of all ranks on a buffer of the device. */
typedef struct stk__nccl_work {
    stk__rank_call call;
    void *buffer;
    const uint64_t *counts; /* of parts; NULL: it has none */
    uint64_t count;         /* elements of all of it; of a broadcast bytes */
    stk_dtype dtype;
    stk_combine op;
    stk_stream *stream;
} stk__nccl_work;

/* The functions of a strategy of the same names. */
stk_status stk__nccl_attach(stk_collectives *c, stk_device *device, stk_error *err);
void stk__nccl_detach(stk_collectives *c);
stk_status stk__nccl_check(const stk_collectives *c, stk_error *err);
/* Find out that all ranks make this call, and give it to the stream. */
stk_status stk__nccl_call(stk_collectives *c, const stk__nccl_work *work, stk_error *err);

#endif
