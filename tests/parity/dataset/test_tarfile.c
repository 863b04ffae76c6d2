/* SPDX-License-Identifier: Apache-2.0 */
/* Shards by Python's tarfile (scripts/check_tarfile.py) are read as tarfile reads them. */
#include <sys/wait.h>
#include <zlib.h>

#include "unit/dataset/shards.h"

#define SCRIPT TESTS_DIR "/../scripts/check_tarfile.py"
#define GOOD   24
#define BAD    10

static char folder[256];
static stk_context *ctx;

static int begin(void **state)
{
    char command[1200];

    ctx = test_context();
    test_folder(folder);
    snprintf(command, sizeof command, "python3 '%s' '%s'", SCRIPT, folder);
    const int status = system(command);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -1;
}

static int end(void **state)
{
    test_folder_remove(folder);
    stk_context_destroy(&ctx);
    return 0;
}

static FILE *open_text(const char *name, int number)
{
    char path[400];

    snprintf(path, sizeof path, "%s/%s-%d.txt", folder, name, number);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    return f;
}

/* All members of a shard; the fingerprint of the dataset. */
static uint64_t check_shard(int number, const char *index)
{
    shard_sample *s = malloc(sizeof *s);
    unsigned long long sample, size, sum, last = 0;
    char spec[64], field[64];

    assert_non_null(s);
    snprintf(spec, sizeof spec, "good-%d.tar?index=%s", number, index);
    stk_dataset *d = shards_open_good(ctx, folder, spec);
    FILE *f = open_text("good", number);
    while (fscanf(f, "%llu %63s %llu %llu", &sample, field, &size, &sum) == 4) {
        shard_take(d, sample, s);
        const stk_value *value = &s->values[shard_field(d, field)];
        assert_int_equal(s->status, STK_OK);
        assert_int_equal(value->size, size);
        assert_int_equal(crc32(0, value->data, (unsigned)value->size), sum);
        last = sample;
    }
    fclose(f);
    assert_int_equal(d->size, last + 1);
    const uint64_t fingerprint = d->fingerprint;
    stk_dataset_close(&d);
    free(s);
    return fingerprint;
}

/* With what stands beside the shards, and without. */
static void test_members(void **state)
{
    for (int i = 0; i < GOOD; i++)
        assert_int_equal(check_shard(i, "none"), check_shard(i, "auto"));
}

static void test_refused(void **state)
{
    stk_dataset *d = NULL;
    char spec[64], word[64];
    stk_error err;

    for (int i = 0; i < BAD; i++) {
        FILE *f = open_text("bad", i);
        assert_non_null(fgets(word, sizeof word, f));
        fclose(f);
        word[strcspn(word, "\n")] = 0;
        snprintf(spec, sizeof spec, "bad-%d.tar?index=none", i);
        const stk_status status = shards_open(ctx, folder, spec, &d, &err);
        assert_true(status == STK_EKIND || status == STK_EFORMAT);
        if (!strstr(err.text, word) || !strstr(err.text, "bad-"))
            fail_msg("%s: '%s' has no '%s'", spec, err.text, word);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members),
        cmocka_unit_test(test_refused),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
