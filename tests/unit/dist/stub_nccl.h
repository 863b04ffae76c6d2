/* A libnccl.so.2 that moves bytes between threads of one process, and the device that it is for:
 * its memory is the host's, and its streams are done when all ranks have made their calls. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_DIST_STUB_NCCL_H
#define STK_TESTS_UNIT_DIST_STUB_NCCL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* What stands for a cudaStream_t. */
typedef struct stub_stream {
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t moved;
    uint64_t queued, done;
} stub_stream;

static inline void stub_stream_move(stub_stream *stream, uint64_t queued, uint64_t done)
{
    pthread_mutex_lock(&stream->lock);
    stream->queued += queued;
    stream->done += done;
    pthread_cond_broadcast(&stream->moved);
    pthread_mutex_unlock(&stream->lock);
}

typedef enum stub_fault {
    STUB_FINE,
    STUB_FAILS, /* the call says that it fails */
    STUB_LOST,  /* the call reaches nobody, and never ends */
    STUB_FALLS, /* likewise, and an asynchronous error says so */
    STUB_INIT_FAILS,
    STUB_INIT_LOST, /* it never joins */
    STUB_ABORT_LATE /* a call is lost, and aborting it takes until `abort_now` */
} stub_fault;

/* The symbol "stub_nccl" of the library: what it is to do, and what it was asked for. */
typedef struct stub_library {
    _Atomic(stub_fault) fault;
    atomic_int rank, at; /* of that rank; its so many'th call, from 1 */
    atomic_int version;
    atomic_int odd_one; /* so many'th question for the version is answered by an older one */
    atomic_int asked;   /* for the version */
    atomic_int joined, finalized, destroyed, aborted, calls;
    atomic_int one_sided;            /* calls of ranks that do not fit each other */
    atomic_int all_reduces, singles; /* calls for all of a sum; for one part of many */
    atomic_bool abort_now;
    /* Where bytes of a device are that its addresses do not lead to; NULL: there. */
    void *(*reach)(const void *at, uint64_t bytes);
} stub_library;

#endif
