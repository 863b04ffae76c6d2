/* SPDX-License-Identifier: Apache-2.0 */
/* What was downloaded and unpacked is there after a power cut, whole; what was being written has no
 * name yet, and the next run goes on or begins again. */
#include "support/powercut.h"

#include "mirrored.h"

/* Acknowledged are the archive and what it unpacks to. */
static stk_status download(const char *folder, void (*acked)(int what))
{
    stk__download d = {.context = test_context(), .of = &room.of};
    stk_error err;

    stk_status status = stk__download_open(&d, folder, &err);
    if (status == STK_OK)
        status = stk__download_fetch(&d, 0, &err);
    if (status == STK_OK && acked)
        acked(1);
    if (status == STK_OK)
        status = stk__download_unpack(&d, &err);
    if (status == STK_OK && acked)
        acked(2);
    stk__download_close(&d);
    stk_context_destroy(&d.context);
    return status;
}

/* Whether a file is whole, or is not there and need not be. */
static bool whole(const char *folder, const char *name, const void *wanted, size_t size, bool must)
{
    uint8_t data[2 * SIZE];
    char path[512];

    snprintf(path, sizeof path, "%s/below/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (!f)
        return !must;
    const size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    return n == size && memcmp(data, wanted, size) == 0;
}

static bool all_whole(const char *folder, int acked)
{
    return whole(folder, "a.tar.gz", room.archive.data, room.archive.size, acked >= 1) &&
           whole(folder, "d/one", room.one, SIZE, acked >= 2) &&
           whole(folder, "d/two", "2", 1, acked >= 2);
}

static bool is_good(void *user, const char *folder, int acked)
{
    if (!all_whole(folder, acked))
        return false;
    /* Of a part whose bytes are not what was written the sum tells. */
    stk_status status = download(folder, NULL);
    if (status == STK_ECHECKSUM)
        status = download(folder, NULL);
    return status == STK_OK && all_whole(folder, 2);
}

static void check(cut_lie lie)
{
    char folder[256];

    test_folder(folder);
    cut_begin(folder);
    assert_int_equal(download(folder, cut_ack), STK_OK);
    cut_end();
    assert_true(all_whole(folder, 2));
    cut_check(folder, lie, 200, is_good, NULL);
}

static void honest(void **state)
{
    check(CUT_HONEST);
}

/* The model sees what is missing. */
static void controls(void **state)
{
    cut_each_lie(check);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(honest), cmocka_unit_test(controls)};

    cut_in_memory();
    return cmocka_run_group_tests(tests, room_open, room_close);
}
