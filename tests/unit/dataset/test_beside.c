/* SPDX-License-Identifier: Apache-2.0 */
/* Indexes of other programs beside the shards: which are used in place of the shards' headers. */
#include "shards.h"

#define SAMPLES 20
#define MEMBER  1024 /* bytes of a member of shard_numbers() with its header */

static char folder[256];
static stk_context *ctx;
static int warnings;
static char warned[512];

static void hear(void *user, stk_message_level level, const char *text)
{
    if (level == STK_MESSAGE_WARNING) {
        warnings++;
        snprintf(warned, sizeof warned, "%s", text);
    }
}

static int begin(void **state)
{
    stk_context_options options;
    stk_error err;

    stk_context_options_init(&options);
    options.on_message = hear;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    test_folder(folder);
    warnings = 0;
    return 0;
}

static int end(void **state)
{
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return 0;
}

/* ---- Shards and what wds2idx writes of them ---- */

static void age(const char *name, int seconds)
{
    const struct timespec then = {.tv_sec = time(NULL) - seconds};
    char path[600];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(utimensat(AT_FDCWD, path, (const struct timespec[]){then, then}, 0), 0);
}

static void write_index(const char *text)
{
    test_write(folder, "a.idx", text, strlen(text));
}

/* The index of shard_numbers(0, SAMPLES). */
static size_t index_text(char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "v1.2 %d\n", SAMPLES);

    for (int i = 0; i < SAMPLES; i++) {
        const int at = 2 * i * MEMBER + 512, digits = i < 10 ? 1 : 2;
        n += (size_t)snprintf(out + n, size - n, "txt %d %d %06d.txt cls %d %d %06d.cls\n", at,
                              digits, i, at + MEMBER, digits, i);
    }
    return n;
}

/* Break the header of the second member of sample `i`, so that the shard cannot be walked. */
static void break_header(int i)
{
    char path[600];

    snprintf(path, sizeof path, "%s/a.tar", folder);
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, "#", 1, (off_t)((2 * i + 1) * MEMBER)), 1);
    close(fd);
    age("a.tar", 3600);
}

/* The shard is read as if there were no index. */
static void check_passed_over(const char *text, const char *why)
{
    stk_dataset *d = NULL;
    stk_error err;

    warnings = 0;
    write_index(text);
    assert_ok(shards_open(ctx, folder, "a.tar?index=auto", &d, &err), &err);
    assert_int_equal(d->size, SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        shard_check_number(d, (uint64_t)i, i);
    stk_dataset_close(&d);
    if (warnings != 1 || !strstr(warned, "a.idx") || !strstr(warned, why))
        fail_msg("%d warnings, '%s' and not '%s', of:\n%s", warnings, warned, why, text);
    char index[600];
    snprintf(index, sizeof index, "rm -f '%s'/.stoker-index-*", folder);
    assert_int_equal(system(index), 0);
}

static void test_used(void **state)
{
    char text[4096];
    stk_dataset *d = NULL;
    stk_error err;

    shard_numbers(folder, "a.tar", 0, SAMPLES);
    d = shards_open_good(ctx, folder, "a.tar?index=none");
    const uint64_t fingerprint = d->fingerprint;
    stk_dataset_close(&d);
    break_header(1);
    assert_fails(shards_open(ctx, folder, "a.tar?index=auto", &d, &err), STK_ECHECKSUM, &err,
                 "record 1");
    index_text(text, sizeof text);
    write_index(text);
    d = shards_open_good(ctx, folder, "a.tar?index=auto");
    assert_int_equal(d->size, SAMPLES);
    for (int i = 0; i < SAMPLES; i++)
        shard_check_number(d, (uint64_t)i, i);
    assert_int_equal(d->fingerprint, fingerprint);
    assert_int_equal(warnings, 0);
    stk_dataset_close(&d);
    /* Who asks for no index has the headers read. */
    assert_fails(shards_open(ctx, folder, "a.tar?index=none", &d, &err), STK_ECHECKSUM, &err,
                 "record 1");
}

/* Two lines of an index, and why they are not used. */
static void test_unsound(void **state)
{
    static const struct {
        const char *from, *to, *why;
    } cases[] = {
        {"v1.2", "v1.1", "another version"},
        {"v1.2 20", "v1.2 x", "how many"},
        {"v1.2 20", "v1.2 0", "how many"},
        {"v1.2 20", "v1.2 19", "more lines"},
        {"v1.2 20", "v1.2 21", "not as wds2idx"},
        {"txt 512 1 000000.txt", "txt 512 1 000000.TXT", "not as wds2idx"},
        {"txt 512 1 000000.txt", "txt 512 000000.txt", "not as wds2idx"},
        {"txt 512 1 000000.txt", "txt 512 1 ../0.txt", "not as wds2idx"},
        {"txt 512 1 000000.txt", "txt 512 1 00 00.txt", "not as wds2idx"},
        {"txt 512 1 000000.txt", "txt 513 1 000000.txt", "do not lie"},
        {"txt 512 1 000000.txt", "txt 0 1 000000.txt", "do not lie"},
        {"cls 1536 1", "cls 512 1", "do not lie"},
        {"cls 1536 1", "cls 1024 1", "do not lie"},
        {"cls 1536 1", "cls 1536 99999999", "do not lie"},
        {"cls 1536 1", "cls 9999999999999999999 1", "do not lie"},
        {"txt 512 1 000000.txt", "txt 512 2 000000.txt", "has none"},
        {"txt 512 1 000000.txt", "txt 512 1 000099.txt", "do not lie|part|another name"},
        {"cls 1536 1 000000.cls", "cls 1536 1 000007.cls", "part the samples"},
        {"000001.txt cls 3584 1 000001.cls", "000000.txt cls 3584 1 000000.cls", "such as"},
        {"cls 1536 1 000000.cls", "txt 1536 1 000000.txt", "such as"},
        {"cls 40448 2 000019.cls\n", "", "not as wds2idx"},
        {" cls 40448 2 000019.cls\n", "\n", "ends before"},
        {"cls 40448 2 000019.cls\n", "cls 40448 2 000019.cls\nx", "more lines"},
    };
    char text[4096], changed[4200];

    shard_numbers(folder, "a.tar", 0, SAMPLES);
    index_text(text, sizeof text);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const char *at = strstr(text, cases[i].from);
        assert_non_null(at);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, cases[i].to,
                 at + strlen(cases[i].from));
        const char *why = strchr(cases[i].why, '|') ? "" : cases[i].why;
        check_passed_over(changed, why);
    }
}

/* Headers from the first to the last are looked at: one that is moved is noticed. */
static void test_headers(void **state)
{
    char text[4096];
    tar_bytes t = {NULL, 0};

    index_text(text, sizeof text);
    /* Another shard of the same lengths, whose last member has another name. */
    for (int i = 0; i < SAMPLES; i++) {
        char key[128], number[16];
        snprintf(number, sizeof number, "%d", i);
        snprintf(key, sizeof key, "%06d.txt", i);
        shard_text(&t, key, number);
        snprintf(key, sizeof key, "%06d.cls%s", i, i == SAMPLES - 1 ? ".x" : "");
        shard_text(&t, key, number);
    }
    tar_end(&t);
    shard_write(folder, "a.tar", &t);
    write_index(text);
    stk_dataset *d = shards_open_good(ctx, folder, "a.tar?index=auto&missing=bad");
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warned, "another name"));
    assert_int_equal(d->num_fields, 3);
    stk_dataset_close(&d);
}

static void test_older(void **state)
{
    char text[4096];

    shard_numbers(folder, "a.tar", 0, SAMPLES);
    index_text(text, sizeof text);
    write_index(text);
    age("a.idx", 7200);
    stk_dataset *d = shards_open_good(ctx, folder, "a.tar?index=auto");
    assert_int_equal(d->size, SAMPLES);
    stk_dataset_close(&d);
    assert_int_equal(warnings, 1);
    assert_non_null(strstr(warned, "a.idx is older than its shard"));
}

/* One warning for all shards of a dataset. */
static void test_one_warning(void **state)
{
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d.tar", i);
        shard_numbers(folder, name, i, i + 1);
        snprintf(name, sizeof name, "%d.idx", i);
        test_write(folder, name, "v1.2 1\n", 7);
    }
    stk_dataset *d = shards_open_good(ctx, folder, "{0..3}.tar?index=auto");
    assert_int_equal(d->size, 4);
    stk_dataset_close(&d);
    assert_int_equal(warnings, 1);
}

/* Names such as DALI takes them: with "./", long ones, files of no sample, hidden ones between. */
static void test_names(void **state)
{
    char name[200], text[1024];
    tar_bytes t = {NULL, 0};

    memset(name, 'n', sizeof name);
    memcpy(name + 150, ".txt", 5);
    shard_text(&t, "./a.txt", "first");
    shard_text(&t, "./README", "none");
    shard_text(&t, "./.hidden", "none");
    tar_head(&t, "././@LongLink", 'L', 155);
    memcpy(tar_room(&t, 512), name, 155);
    shard_text(&t, "nnnn", "second");
    tar_end(&t);
    shard_write(folder, "a.tar", &t);
    stk_dataset *d = shards_open_good(ctx, folder, "a.tar?index=none");
    const uint64_t fingerprint = d->fingerprint;
    stk_dataset_close(&d);
    snprintf(text, sizeof text,
             "v1.2 3\ntxt 512 5 ./a.txt\n./README 1536 4 ./README\ntxt 4608 6 %s", name);
    write_index(text);
    d = shards_open_good(ctx, folder, "a.tar?index=auto");
    assert_int_equal(warnings, 0);
    assert_int_equal(d->size, 2);
    assert_int_equal(d->fingerprint, fingerprint);
    shard_sample *s = malloc(sizeof *s);
    assert_non_null(s);
    shard_take(d, 1, s);
    shard_check(d, s, "txt", "second", 6);
    free(s);
    stk_dataset_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_used, begin, end),
        cmocka_unit_test_setup_teardown(test_unsound, begin, end),
        cmocka_unit_test_setup_teardown(test_headers, begin, end),
        cmocka_unit_test_setup_teardown(test_older, begin, end),
        cmocka_unit_test_setup_teardown(test_one_warning, begin, end),
        cmocka_unit_test_setup_teardown(test_names, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
