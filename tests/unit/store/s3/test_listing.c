/* SPDX-License-Identifier: Apache-2.0 */
/* Large folders of s3: listed in ranges at the same time: every key once, in few rounds. */
#include <stdlib.h>

#include "store/s3/between.h"
#include "support/http_server.h"
#include "support/support.h"

/* ---- Where keys are cut ---- */

static void see_all(stk__s3_letters *letters, const char *text)
{
    char key[STK__S3_PLACES + 1];

    *letters = (stk__s3_letters){0};
    for (; *text; text++) {
        memset(key, *text, sizeof key - 1);
        key[sizeof key - 1] = 0;
        stk__s3_letters_see(letters, key, 0);
    }
}

static void test_between(void **state)
{
    static const struct {
        const char *letters, *first, *low, *high, *out;
    } cases[] = {
        {"0123456789", "d/i000000", "d/i000999", "", "d/i500499"},
        {"0123456789", "d/i000000", "d/i000999", "d/i500000", "d/i250499"},
        {"0123456789", "d/000", "d/009", "d/100", "d/054500"},
        {"0123456789", "d/0", "d/9", "", "d/950000"},
        {"ab", "d/a", "d/a", "d/b", "d/anaaaa"},
        /* a character of two bytes is not cut */
        {"01", "d/\xc3\xa9",
         "d/\xc3\xa9"
         "0",
         "d/\xc3\xa9"
         "1",
         "d/\xc3\xa9"
         "050000"},
        {"01", "d/\xc3\xa9", "d/\xc3\xa9", "d/\xc3\xaa", NULL},
        /* folders are not cut */
        {"0123456789/", "d/1/", "d/3/", "d/5/", "d/400000"},
        {"0123456789", "d/1", "d/1", "d/1000000", NULL},
        {"0", "d/0", "d/00", "", "d/500000"},
        {"", "d/", "d/", "", NULL},
    };
    stk__s3_letters letters;
    char out[STK_MAX_OBJECT_KEY];

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        see_all(&letters, cases[i].letters);
        const bool found =
            stk__s3_between(&letters, cases[i].first, cases[i].low, cases[i].high, 2, out);
        assert_int_equal(found, cases[i].out != NULL);
        if (found) {
            assert_string_equal(out, cases[i].out);
            assert_true(strcmp(out, cases[i].low) > 0);
            assert_true(!*cases[i].high || strcmp(out, cases[i].high) < 0);
        }
    }
}

/* ---- Lists ---- */

typedef struct fixture {
    stk_context *context;
    http_server *server;
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    stk_context_options options;
    char stores[256];
    stk_error err;

    f->server = http_server_start(&(http_server_options){.seed = 1, .s3 = true});
    assert_non_null(f->server);
    snprintf(stores, sizeof stores, "s3(endpoint='%s', anonymous=true, allow_http=true)",
             http_server_url(f->server));
    stk_context_options_init(&options);
    options.stores = stores;
    assert_ok(stk_context_create(&options, &f->context, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;

    stk_context_destroy(&f->context);
    http_server_stop(&f->server);
    free(f);
    return 0;
}

typedef struct counted {
    unsigned char *seen;
    uint64_t keys, folders, count, twice;
    uint64_t fail_at; /* keys; 0: never */
} counted;

static stk_status count(void *user, const char *key, const stk_object_info *info)
{
    counted *c = user;
    const char *name = strrchr(key, '/');
    const uint64_t number = strtoull((name ? name : key - 1) + 2, NULL, 10);

    assert_true(number < c->count);
    c->twice += c->seen[number];
    c->seen[number] = 1;
    c->keys += !info->is_folder;
    c->folders += info->is_folder;
    return c->fail_at && c->keys == c->fail_at ? STK_ECANCELED : STK_OK;
}

static stk_status list(fixture *f, const char *prefix, counted *c)
{
    stk_store *store = NULL;
    stk_error err;

    assert_ok(stk_store_open(f->context, "s3://bucket/", &store, NULL, 0, &err), &err);
    c->seen = calloc(1, c->count);
    assert_non_null(c->seen);
    const stk_status status = stk_store_list(store, prefix, NULL, count, c, &err);
    stk_store_close(&store);
    free(c->seen);
    return status;
}

/* All keys in one folder: with 1000 a page a chain would be 200 requests long. */
static void test_one_folder(void **state)
{
    enum { COUNT = 200000 };
    fixture *f = *state;
    counted c = {.count = COUNT};

    http_server_generate(f->server, "/bucket/train/", COUNT, 0, 1000);
    http_server_shape(f->server, 20, 0, 0);
    assert_int_equal(list(f, "train", &c), STK_OK);
    const http_counters seen = http_server_counters(f->server);
    assert_int_equal(c.keys, COUNT);
    assert_int_equal(c.twice, 0);
    assert_true(seen.lists < 2 * COUNT / 1000);
    assert_true(seen.rounds < COUNT / 1000 / 2);
}

/* Folders are entries of a list as keys are, and are given once as well. */
static void test_folders(void **state)
{
    enum { COUNT = 100000, EACH = 20 };
    fixture *f = *state;
    counted c = {.count = COUNT};

    http_server_generate(f->server, "/bucket/train/", COUNT, EACH, 1000);
    assert_int_equal(list(f, "train", &c), STK_OK);
    assert_int_equal(c.folders, COUNT / EACH);
    assert_int_equal(c.keys, 0);
    assert_int_equal(c.twice, 0);
}

/* Where it fails all threads end, and it is the caller's failure. */
static void test_ends(void **state)
{
    enum { COUNT = 100000 };
    fixture *f = *state;
    counted c = {.count = COUNT, .fail_at = 5000};

    http_server_generate(f->server, "/bucket/train/", COUNT, 0, 1000);
    assert_int_equal(list(f, "train", &c), STK_ECANCELED);
    assert_true(c.keys <= 5000);
    http_server_fault(f->server, &(http_fault){.query = "start-after", .status = 403});
    c = (counted){.count = COUNT};
    assert_int_equal(list(f, "train", &c), STK_EACCES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_between),
        cmocka_unit_test_setup_teardown(test_one_folder, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_folders, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
