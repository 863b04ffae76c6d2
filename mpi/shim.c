/* SPDX-License-Identifier: Apache-2.0 */
/* One MPI as a transport. Built once for each MPI that is installed, as their handles, constants
 * and names of libraries differ; loaded when a run of several ranks begins. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dist/transport.h"

#ifdef OPEN_MPI
#define NAME "Open MPI"
#else
#define NAME "MPICH"
#endif

enum { TOLD = 7 /* the tag of numbers */ };

typedef struct transport {
    MPI_Comm world, aside; /* `aside`: of the numbers */
    MPI_Request pending;
    int rank, size;
    int *counts, *places, *to_counts, *to_places; /* of the pending call */
    uint64_t *told;                               /* of each rank, the last */
    uint64_t telling;                             /* what this rank tells */
} transport;

static bool check(int code, const char *what, char *why)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;

    if (code == MPI_SUCCESS)
        return true;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        snprintf(text, sizeof text, "error %d", code);
    snprintf(why, STK__TRANSPORT_TEXT, "%s: %.200s", what, text);
    return false;
}

static void leave(transport *t)
{
    free(t->counts);
    free(t->told);
    free(t);
}

/* Errors come back to the caller, which ends the run in good order. */
static bool enter(transport *t, char *why)
{
    return check(MPI_Comm_dup(MPI_COMM_WORLD, &t->world), "MPI_Comm_dup", why) &&
           check(MPI_Comm_dup(MPI_COMM_WORLD, &t->aside), "MPI_Comm_dup", why) &&
           check(MPI_Comm_set_errhandler(t->world, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler",
                 why) &&
           check(MPI_Comm_set_errhandler(t->aside, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler",
                 why) &&
           check(MPI_Comm_rank(t->world, &t->rank), "MPI_Comm_rank", why) &&
           check(MPI_Comm_size(t->world, &t->size), "MPI_Comm_size", why);
}

static bool open_transport(void **out, uint64_t *rank, uint64_t *world_size, char *why)
{
    int begun = 0, ended = 0, given = 0;

    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    if (begun || ended) {
        snprintf(why, STK__TRANSPORT_TEXT, "MPI was begun in this process already");
        return false;
    }
    transport *t = calloc(1, sizeof *t);
    if (!t) {
        snprintf(why, STK__TRANSPORT_TEXT, "no memory");
        return false;
    }
    /* Calls come from more than one thread, one after the other. */
    bool fine =
        check(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &given), "MPI_Init_thread", why);
    if (fine && given < MPI_THREAD_SERIALIZED) {
        snprintf(why, STK__TRANSPORT_TEXT, "this MPI takes calls of one thread alone");
        fine = false;
    }
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    fine = fine && enter(t, why);
    if (fine) {
        t->counts = calloc(4 * (size_t)t->size, sizeof *t->counts);
        t->told = calloc((size_t)t->size, sizeof *t->told);
        if (!t->counts || !t->told) {
            snprintf(why, STK__TRANSPORT_TEXT, "no memory");
            fine = false;
        }
    }
    if (!fine) {
        leave(t);
        return false;
    }
    t->places = t->counts + t->size;
    t->to_counts = t->places + t->size;
    t->to_places = t->to_counts + t->size;
    t->pending = MPI_REQUEST_NULL;
    *rank = (uint64_t)t->rank;
    *world_size = (uint64_t)t->size;
    *out = t;
    return true;
}

static void close_transport(void *transport_, bool whole)
{
    transport *t = transport_;

    if (whole) {
        MPI_Comm_free(&t->aside);
        MPI_Comm_free(&t->world);
        MPI_Finalize();
    }
    leave(t);
}

/* Sizes as MPI takes them, one behind the other. */
static bool place(const transport *t, const size_t *sizes, char *why)
{
    size_t at = 0;

    for (int r = 0; r < t->size; r++) {
        if (sizes[r] > INT_MAX || at > INT_MAX) {
            snprintf(why, STK__TRANSPORT_TEXT, "a call of more than 2 GiB");
            return false;
        }
        t->counts[r] = (int)sizes[r];
        t->places[r] = (int)at;
        at += sizes[r];
    }
    return true;
}

static bool all_gather(void *transport_, const void *own, void *all, size_t bytes, char *why)
{
    transport *t = transport_;

    if (bytes > INT_MAX) {
        snprintf(why, STK__TRANSPORT_TEXT, "a call of more than 2 GiB");
        return false;
    }
    return check(
        MPI_Iallgather(own, (int)bytes, MPI_BYTE, all, (int)bytes, MPI_BYTE, t->world, &t->pending),
        "MPI_Iallgather", why);
}

static bool all_gather_parts(void *transport_, void *all, const size_t *sizes, char *why)
{
    transport *t = transport_;

    return place(t, sizes, why) &&
           check(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, t->counts, t->places,
                                 MPI_BYTE, t->world, &t->pending),
                 "MPI_Iallgatherv", why);
}

static bool all_to_all(void *transport_, const void *from, const size_t *sizes, void *to, char *why)
{
    transport *t = transport_;
    size_t at = 0;

    if (!place(t, sizes, why))
        return false;
    for (int r = 0; r < t->size; r++, at += sizes[t->rank]) {
        if (at > INT_MAX) {
            snprintf(why, STK__TRANSPORT_TEXT, "a call of more than 2 GiB");
            return false;
        }
        t->to_counts[r] = t->counts[t->rank];
        t->to_places[r] = (int)at;
    }
    return check(MPI_Ialltoallv(from, t->counts, t->places, MPI_BYTE, to, t->to_counts,
                                t->to_places, MPI_BYTE, t->world, &t->pending),
                 "MPI_Ialltoallv", why);
}

static bool broadcast(void *transport_, void *data, size_t bytes, char *why)
{
    transport *t = transport_;

    if (bytes > INT_MAX) {
        snprintf(why, STK__TRANSPORT_TEXT, "a call of more than 2 GiB");
        return false;
    }
    return check(MPI_Ibcast(data, (int)bytes, MPI_BYTE, 0, t->world, &t->pending), "MPI_Ibcast",
                 why);
}

static bool test(void *transport_, bool *done, char *why)
{
    transport *t = transport_;
    int flag = 0;

    if (!check(MPI_Test(&t->pending, &flag, MPI_STATUS_IGNORE), "MPI_Test", why))
        return false;
    *done = flag != 0;
    return true;
}

/* ---- Numbers, beside the calls --------------------------------------------------------------- */

static bool tell(void *transport_, uint64_t number, char *why)
{
    transport *t = transport_;
    MPI_Request request;

    t->telling = number;
    for (int r = 0; r < t->size; r++) {
        if (r == t->rank)
            continue;
        if (!check(MPI_Isend(&t->telling, sizeof number, MPI_BYTE, r, TOLD, t->aside, &request),
                   "MPI_Isend", why) ||
            !check(MPI_Request_free(&request), "MPI_Request_free", why))
            return false;
    }
    return true;
}

static bool told(void *transport_, uint64_t rank, uint64_t *number, char *why)
{
    transport *t = transport_;
    int flag = 1;

    while ((int)rank != t->rank) {
        if (!check(MPI_Iprobe((int)rank, TOLD, t->aside, &flag, MPI_STATUS_IGNORE), "MPI_Iprobe",
                   why))
            return false;
        if (!flag)
            break;
        if (!check(MPI_Recv(&t->told[rank], sizeof *number, MPI_BYTE, (int)rank, TOLD, t->aside,
                            MPI_STATUS_IGNORE),
                   "MPI_Recv", why))
            return false;
    }
    *number = t->told[rank];
    return true;
}

extern const stk__transport_ops stk_transport_entry;
__attribute__((visibility("default"))) const stk__transport_ops stk_transport_entry = {
    .struct_size = sizeof stk_transport_entry,
    .version = STK__TRANSPORT_VERSION,
    .name = NAME,
    .open = open_transport,
    .close = close_transport,
    .all_gather = all_gather,
    .all_gather_parts = all_gather_parts,
    .all_to_all = all_to_all,
    .broadcast = broadcast,
    .test = test,
    .tell = tell,
    .told = told,
};
