/* published files -> a local folder */
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of datasets are fetched from where they are published, or from a mirror, which is a folder
 * of any store. Each is written under NAME.part, goes on from there after an interruption, and gets
 * its name, durably, when all of it has the MD5 that is published. What has its name is never
 * fetched nor replaced. Of several processes, and threads, one writes and the others wait for it.
 */
#ifndef STK_SRC_DATASET_DOWNLOAD_H
#define STK_SRC_DATASET_DOWNLOAD_H

#include "dataset/published.h"

/* A folder that is being filled; what the caller sets comes first. One thread. */
typedef struct stk__download {
    stk_context *context;
    const stk__published *of;
    const char *mirror;                  /* instead of those of `of`; NULL or "": these */
    const struct stk__file_calls *calls; /* for tests; NULL: the system's */
    uint64_t patience_ns; /* how long what another process writes may stand still; 0: 5 minutes */
    /* Its own. */
    char *path; /* of the folder */
    int folder;
    unsigned char *room;
} stk__download;

/* Open the folder of the published files below `url`, which is made where it is missing. Errors:
 * STK_ENOTSUP for one that is no local folder. */
stk_status stk__download_open(stk__download *d, const char *url, stk_error *err);
/* Ends it. Accepts one that was not opened. */
void stk__download_close(stk__download *d);

/*
 * Fetch a file unless it is there. Blocks, with progress. Errors: those of the stores,
 * STK_ECHECKSUM (it is not what is published: nothing of it is left), STK_EBUSY (another process
 * writes it, and stands still), STK_ENOSPC, ...
 */
stk_status stk__download_fetch(stk__download *d, size_t file, stk_error *err);

/*
 * Unpack what is wanted of the archive that is there; files that are there stay as they are. The
 * archive is checked first. Blocks, with progress. Errors: as above, and those of stk__tar_next().
 */
stk_status stk__download_unpack(stk__download *d, stk_error *err);

/* ---- For the parts of it (download.c, unpack.c) ---- */

/* Bytes of `room`, and of one read: also a slow line ends it within what a read may take. */
#define STK__DOWNLOAD_ROOM (UINT64_C(1) << 20)

/* The MD5 of the first `length` bytes of an open file goes into `md5`. `name` is for messages. */
struct stk__md5; /* base/md5.h */
stk_status stk__download_sum(stk__download *d, int fd, uint64_t length, const char *name,
                             struct stk__md5 *md5, stk_error *err);
/* Fill `err` after a call on a file of the folder failed. */
stk_status stk__download_fail(const stk__download *d, const char *step, const char *name, int error,
                              stk_error *err);
/* Wait a while for what another process does: STK_EBUSY when `*seen`, of which it has done `now`,
 * has not grown for as long as patience goes. `*since` and `*seen` begin with 0. */
stk_status stk__download_wait(stk__download *d, const char *name, uint64_t now, uint64_t *seen,
                              uint64_t *since, stk_error *err);

#endif
