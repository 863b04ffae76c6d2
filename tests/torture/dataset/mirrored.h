/* SPDX-License-Identifier: Apache-2.0 */
/* What torture of downloads shares: a folder as the mirror of an archive with two files. */
#ifndef STK_TESTS_TORTURE_DATASET_MIRRORED_H
#define STK_TESTS_TORTURE_DATASET_MIRRORED_H

#include <string.h>

#include "base/md5.h"
#include "dataset/download.h"
#include "support/tars.h"

#define SIZE 3000

static struct {
    char mirror[256], folder[256], sum[STK__MD5_TEXT];
    unsigned char one[SIZE];
    tar_bytes archive;
    stk__published of;
} room;

static inline int room_open(void **state)
{
    static const char *const names[] = {"one", "two", NULL};
    tar_bytes t = {NULL, 0};
    uint64_t seed = 5;
    stk__md5 h;

    /* No zeros: those of a disk are told from what was written. */
    for (size_t i = 0; i < SIZE; i++)
        room.one[i] = (unsigned char)(1 + test_random(&seed) % 255);
    tar_head(&t, "d/", '5', 0);
    tar_file(&t, "d/one", room.one, SIZE);
    tar_file(&t, "d/two", "2", 1);
    tar_end(&t);
    room.archive = tar_gzip(&t);
    test_folder(room.mirror);
    test_write(room.mirror, "a.tar.gz", room.archive.data, room.archive.size);
    stk__md5_init(&h);
    stk__md5_add(&h, room.archive.data, room.archive.size);
    stk__md5_text(&h, room.sum);
    room.of = (stk__published){.kind = "made_up",
                               .folder = "below",
                               .mirrors = {room.mirror},
                               .files = {{"a.tar.gz", room.sum}},
                               .unpacked = "d",
                               .names = names};
    return 0;
}

static inline int room_close(void **state)
{
    test_folder_remove(room.mirror);
    free(room.archive.data);
    return 0;
}

#endif
