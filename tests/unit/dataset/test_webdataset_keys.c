/* SPDX-License-Identifier: Apache-2.0 */
/* The names of samples in shards of tar, as a field. */
#include "shards.h"

#include "base/base.h"

static char folder[256];
static stk_context *ctx;
static shard_sample sample;

static int begin(void **state)
{
    ctx = test_context();
    test_folder(folder);
    return 0;
}

static int end(void **state)
{
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return 0;
}

/* A header of POSIX whose name is in two fields. */
static void split_name(tar_bytes *t, const char *prefix, const char *name, const char *text)
{
    const size_t at = tar_head(t, name, '0', strlen(text));

    memcpy(t->data + at + 257, "ustar\00000", 8);
    memcpy(t->data + at + 345, prefix, strlen(prefix));
    tar_sum(t->data + at);
    memcpy(tar_room(t, 512), text, strlen(text));
}

/* The name of a sample as text, in whatever header it stands. */
static void test_keys(void **state)
{
    static const char path[] = "20 comment=one more\n"
                               "27 path=./pax/x.y/four.txt\n";
    static const char *const keys[] = {
        "one", "two/2", "gnu/long name", "pax/x.y/four", "pre.fix/more/five", "six"};
    tar_bytes t = {NULL, 0};

    shard_text(&t, "one.txt", "1");
    shard_text(&t, "one.JSON", "{}");
    shard_text(&t, "./two/2.txt", "2");
    shard_text(&t, "two/2.json", "{}");
    shard_long_name(&t, ".//gnu/long name.txt", 21);
    shard_text(&t, "cut", "3");
    shard_text(&t, "gnu/long name.json", "{}");
    shard_pax(&t, 'x', path, sizeof path - 1);
    shard_text(&t, "cut", "4");
    shard_text(&t, "pax/x.y/four.json", "{}");
    split_name(&t, "./pre.fix/more", "five.txt", "5");
    shard_text(&t, "pre.fix/more/five.json", "{}");
    shard_text(&t, "six.json", "{}");
    shard_text(&t, "six.txt", "6");
    tar_end(&t);
    shard_write(folder, "k.tar", &t);
    stk_dataset *d = shards_open_good(ctx, folder, "k.tar?index=none&fields=__key__,txt");
    assert_int_equal(d->size, 6);
    assert_int_equal(d->num_fields, 2);
    for (uint64_t i = 0; i < 6; i++) {
        char text[2] = {(char)('1' + i), 0};
        shard_take(d, i, &sample);
        shard_check(d, &sample, "__key__", keys[i], strlen(keys[i]));
        shard_check(d, &sample, "txt", text, 1);
    }
    stk_dataset_close(&d);
    d = shards_open_good(ctx, folder, "k.tar?index=none&fields=__key__");
    assert_int_equal(d->num_fields, 1);
    stk_dataset_close(&d);
    d = shards_open_good(ctx, folder, "k.tar?index=none");
    assert_int_equal(d->num_fields, 2);
    stk_dataset_close(&d);
}

/* An index that is kept without keys is no answer to who asks for them, nor the other way; nor is
 * one that wds2idx wrote, which does not say where names lie. */
static void test_keys_and_kept_index(void **state)
{
    static const char list[] = "v1.2 1\ntxt 512 1 one.txt\n";
    tar_bytes t = {NULL, 0};

    shard_text(&t, "one.txt", "1");
    tar_end(&t);
    shard_write(folder, "listed.tar", &t);
    test_write(folder, "listed.idx", list, sizeof list - 1);
    stk_dataset *listed = shards_open_good(ctx, folder, "listed.tar?fields=__key__,txt");
    shard_take(listed, 0, &sample);
    shard_check(listed, &sample, "__key__", "one", 3);
    stk_dataset_close(&listed);
    shard_numbers(folder, "keys/a.tar", 0, 5);
    for (int again = 0; again < 2; again++) {
        stk_dataset *d = shards_open_good(ctx, folder, "keys?fields=txt,cls");
        shard_check_line(d, "index", again ? "used" : "written");
        assert_int_equal(d->num_fields, 2);
        stk_dataset_close(&d);
        d = shards_open_good(ctx, folder, "keys?fields=__key__,cls");
        shard_check_line(d, "index", again ? "used" : "written");
        shard_take(d, 3, &sample);
        shard_check(d, &sample, "__key__", "000003", 6);
        shard_check_label(d, &sample, 3);
        stk_dataset_close(&d);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_keys_and_kept_index),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
