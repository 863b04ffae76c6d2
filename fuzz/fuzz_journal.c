/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal of a conversion. The input is its lines without their checksums, which are added, so
 * that the parser behind them is reached; the first byte odd: as they stand; its next bit: the
 * journal may have lines of arrays and of their plan. What it calls old is removed as at the end of
 * a conversion. What must hold: nothing outside the target is touched, nor a file of another size
 * in it.
 */
#include "fuzz_support.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "convert/journal.h"
#include "dataset/dataset.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char base[64], root[80];

static void put(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);

    FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size && close(fd) == 0);
}

static void clean(void)
{
    char path[128];

    for (const char *const *name =
             (const char *const[]){"in/mine", "in/.stoker-convert", "victim", NULL};
         *name; name++) {
        snprintf(path, sizeof path, "%s/%s", base, *name);
        unlink(path);
    }
    rmdir(root);
    rmdir(base);
}

static void set_up(void)
{
    char path[128];

    if (!*base) {
        snprintf(base, sizeof base, "/tmp/stoker-fuzz-XXXXXX");
        FUZZ_CHECK(mkdtemp(base));
        snprintf(root, sizeof root, "%s/in", base);
        FUZZ_CHECK(mkdir(root, 0777) == 0);
        atexit(clean);
    }
    snprintf(path, sizeof path, "%s/victim", base);
    put(path, "123", 3);
    snprintf(path, sizeof path, "%s/mine", root);
    put(path, "1234567", 7);
}

static void check(void)
{
    char path[128];
    struct stat st;

    snprintf(path, sizeof path, "%s/victim", base);
    FUZZ_CHECK(stat(path, &st) == 0 && st.st_size == 3);
    snprintf(path, sizeof path, "%s/mine", root);
    FUZZ_CHECK(stat(path, &st) == 0 || errno == ENOENT);
}

/* Write the journal: every line with its checksum. */
static void write_journal(const uint8_t *data, size_t size, bool sums)
{
    char path[128];

    snprintf(path, sizeof path, "%s/.stoker-convert", root);
    FILE *f = fopen(path, "w");
    FUZZ_CHECK(f);
    while (size > 0) {
        const uint8_t *end = memchr(data, '\n', size);
        const size_t n = end ? (size_t)(end - data) : size;
        fwrite(data, 1, n, f);
        if (sums)
            fprintf(f, " %08x", (unsigned)stk__fingerprint(0, data, n));
        if (end || sums)
            fputc('\n', f);
        data += n + (end != NULL);
        size -= n + (end != NULL);
    }
    FUZZ_CHECK(fclose(f) == 0);
}

static stk_status done(void *user, const char *key, const stk__done *d, stk_error *err)
{
    FUZZ_CHECK(*key && d->kind >= STK__DONE_COPIED && d->kind <= STK__DONE_ENCODED);
    return stk__target_remove(user, key, d->size, err);
}

static stk_status old(void *user, const char *name, uint64_t size, stk_error *err)
{
    FUZZ_CHECK(*name);
    (void)stk__target_has(user, name, size);
    return stk__target_remove(user, name, size, err);
}

static stk_status object(void *user, uint64_t node, uint64_t number, uint64_t size, stk_error *err)
{
    (void)user, (void)number;
    if (node > 7 || size == 0)
        return stk__fail(err, STK_EFORMAT, STK_STAGE_CONVERT, "no such object");
    return STK_OK;
}

static void end(void *user)
{
    (void)user;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_convert_options common;
    stk__journal journal;
    stk__target *target;
    bool fresh;
    stk_error err;

    if (size == 0)
        return 0;
    set_up();
    write_journal(data + 1, size - 1, data[0] % 2 == 0);
    stk_context *ctx = fuzz_context();
    uint64_t held = fuzz_held(ctx);
    const stk_option_table *table = stk_option_table_find("images");
    stk_convert_images_options options;
    stk_options_init(table, &options, sizeof options);
    const stk__journal_head head = {.kind = "images",
                                    .source = "/from",
                                    .table = table,
                                    .options = &options,
                                    .plan = data[0] & 2};
    stk_convert_options_init(&common);
    common.overwrite = true;
    const stk_conversion_job job = {.struct_size = sizeof job,
                                    .context = ctx,
                                    .source = "images:/from",
                                    .target = root,
                                    .options = &common};
    FUZZ_CHECK(stk__target_open(&job, "", &target, &err) == STK_OK);
    FUZZ_CHECK(stk__journal_open(&job, STK__TARGET_JOURNAL, &journal, &err) == STK_OK);
    const stk__journal_lines lines = {.done = done,
                                      .old = old,
                                      .object = data[0] & 2 ? object : NULL,
                                      .end = data[0] & 2 ? end : NULL,
                                      .user = target};
    stk_error_init(&err);
    stk_status status = stk__journal_read(&job, &journal, &head, &lines, &fresh, &err);
    FUZZ_CHECK(status == STK_OK || (err.text[0] && status != STK_EINTERNAL));
    stk__journal_close(&journal);
    stk__target_close(&target);
    check();
    FUZZ_CHECK(fuzz_held(ctx) == held);
    stk_context_destroy(&ctx);
    return 0;
}
