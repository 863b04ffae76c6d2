/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Archives of tar, as downloads are unpacked. Input: a byte that says whether the rest is packed by
 * gzip (1) and whether files are passed over (2); the archive.
 */
#include "dataset/tar.h"

#include "codec/codec.h"
#include "fuzz_support.h"

typedef struct archive {
    const uint8_t *data;
    size_t size, at;
    stk__gzip *gzip;
} archive;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static stk_status read_packed(void *user, uint64_t offset, uint64_t length, void *data,
                              stk_error *err)
{
    const archive *a = user;

    (void)err;
    FUZZ_CHECK(length && offset <= a->size && length <= a->size - offset);
    memcpy(data, a->data + offset, length);
    return STK_OK;
}

static stk_status take(void *user, void *out, uint64_t size, uint64_t *got, stk_error *err)
{
    archive *a = user;

    if (a->gzip)
        return stk__gzip_read(a->gzip, out, size, got, err);
    *got = size < a->size - a->at ? size : a->size - a->at;
    if (*got)
        memcpy(out, a->data + a->at, *got);
    a->at += *got;
    return STK_OK;
}

/* It would lie below the folder, whatever it is. */
static void check_name(const char *name)
{
    FUZZ_CHECK(name[0] && name[0] != '/' && strlen(name) < STK__TAR_NAME);
    for (const char *part = name; part; part = strchr(part, '/')) {
        part += *part == '/';
        const size_t length = strcspn(part, "/");
        FUZZ_CHECK(length && !(length <= 2 && strncmp(part, "..", length) == 0));
    }
}

static stk_status go_through(archive *a, bool pass, stk_error *err)
{
    uint8_t bytes[700];
    stk__tar_entry entry;
    bool found = true;
    stk__tar tar;

    stk__tar_init(&tar, take, a, "a.tar");
    for (int n = 0; n < 1000; n++) {
        STK_TRY(stk__tar_next(&tar, &entry, &found, err));
        if (!found)
            return STK_OK;
        check_name(entry.name);
        FUZZ_CHECK(!entry.is_folder || entry.size == 0);
        for (uint64_t left = pass ? 0 : entry.size; left;) {
            const uint64_t length = left < sizeof bytes ? left : sizeof bytes;
            STK_TRY(stk__tar_read(&tar, bytes, length, err));
            left -= length;
        }
    }
    return STK_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_error err;

    if (size < 1)
        return 0;
    fuzz_room room = fuzz_open("mem://tar");
    archive a = {data + 1, size - 1, 0, NULL};
    fuzz_ready(&room);
    stk_error_init(&err);
    if (data[0] & 1)
        FUZZ_CHECK(stk__gzip_create_from(room.ctx, read_packed, &a, a.size, UINT64_C(16) << 20,
                                         "a.tar.gz", &a.gzip, &err) == STK_OK);
    if (go_through(&a, data[0] & 2, &err) != STK_OK)
        FUZZ_CHECK(err.status != STK_OK && err.text[0] && err.status != STK_EINTERNAL &&
                   err.status != STK_EINVAL);
    stk__gzip_destroy(&a.gzip);
    fuzz_close(&room);
    return 0;
}
