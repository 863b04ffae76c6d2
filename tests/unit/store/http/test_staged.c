/* SPDX-License-Identifier: Apache-2.0 */
/* http: objects that are larger than what is kept in memory until they are sent. */
#include "world.h"

#include "store/http/staged.h"

#define LARGE (3 * STK__HTTP_IN_MEMORY + 13)
#define MOST  (STK__HTTP_IN_MEMORY + (4u << 20)) /* bytes that a put may take */

static int set_up(void **state)
{
    const int status = world_open(state, NULL);
    fixture *f = *state;
    uint64_t seed = 3;

    unsigned char *large = malloc(LARGE);
    assert_non_null(large);
    for (size_t i = 0; i < LARGE; i += 8) {
        const uint64_t drawn = test_random(&seed);
        memcpy(large + i, &drawn, STK_MIN(sizeof drawn, LARGE - i));
    }
    f->more = large;
    return status;
}

static int tear_down_all(void **state)
{
    fixture *f = *state;

    free(f->more);
    return tear_down(state);
}

/* Put it in pieces of all sizes. */
static stk_status put(fixture *f, stk_store *store, const char *key, const stk_store_call *call,
                      stk_error *err)
{
    stk_store_call own = *call;
    const char *bytes = f->more;
    stk_put *out = NULL;
    stk_status status;

    if (!own.deadline_ns)
        own.deadline_ns = stk__store_put_deadline(LARGE);
    assert_ok(stk__store_put_begin(store, key, &own, &out, err), err);
    for (size_t at = 0, n = 1; at < LARGE; at += n, n = n * 3 + 1) {
        n = STK_MIN(n, LARGE - at);
        status = out->ops->write(out, bytes + at, n, err);
        assert_ok(status, err);
    }
    return stk__store_put_commit(&out, err);
}

static void check(fixture *f, const char *path)
{
    size_t length = 0;
    void *kept = http_server_get(f->server, path, &length);

    assert_int_equal(length, LARGE);
    assert_memory_equal(kept, f->more, LARGE);
    free(kept);
}

static uint64_t peak(const fixture *f)
{
    stk_memory_stats stats = {.struct_size = sizeof stats};

    stk_context_memory(f->context, &stats);
    return stats.peak_bytes;
}

/* In bounded memory, and again from the beginning after each way to fail. */
static void test_bounded(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/new/");
    stk_error err;

    const int cut = http_server_fault(
        f->server,
        &(http_fault){
            .method = "PUT", .count = 1, .in_upload = true, .cut = HTTP_RESET, .at = 5000000});
    const int busy =
        http_server_fault(f->server, &(http_fault){.method = "PUT", .count = 1, .status = 500});
    const uint64_t before = peak(f);
    assert_ok(put(f, store, "a", &stk__store_call_none, &err), &err);
    check(f, "/new/a");
    assert_int_equal(http_server_struck(f->server, cut), 1);
    assert_int_equal(http_server_struck(f->server, busy), 1);
    const stk_store_call known = {.struct_size = sizeof known, .length = LARGE};
    assert_ok(put(f, store, "b", &known, &err), &err);
    check(f, "/new/b");
    assert_true(peak(f) - before < MOST);
    stk_store_close(&store);
}

/* An answer is late from the end of what goes up on, however long that takes. */
static void test_upload_in_progress(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/new/?retries=0&first_byte_timeout=2");
    stk_error err;

    http_server_fault(f->server,
                      &(http_fault){.method = "PUT", .in_upload = true, .bandwidth = LARGE / 3});
    assert_ok(put(f, store, "a", &stk__store_call_none, &err), &err);
    check(f, "/new/a");
    stk_store_close(&store);
}

/* On a connection that was used before curl sends it again by itself. */
static void test_sent_again(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/new/?retries=0");
    stk_object_info info = {.struct_size = sizeof info};
    stk_error err;

    assert_fails(stk_store_stat(store, "a", NULL, &info, &err), STK_ENOENT, &err, "a");
    const int lost = http_server_fault(
        f->server,
        &(http_fault){.method = "PUT", .count = 1, .cut = HTTP_CLOSE, .at = HTTP_BEFORE_HEAD});
    assert_ok(put(f, store, "a", &stk__store_call_none, &err), &err);
    assert_int_equal(http_server_struck(f->server, lost), 1);
    check(f, "/new/a");
    stk_store_close(&store);
}

/* Its own object is known again by its bytes, and another's is not taken for it. */
static void test_lost_answer(void **state)
{
    fixture *f = *state;
    stk_store *store = open_store(f, "/new/");
    const stk_store_call keep = {.struct_size = sizeof keep, .no_replace = true};
    char *large = f->more;
    stk_error err;

    http_server_fault(
        f->server,
        &(http_fault){.method = "PUT", .count = 1, .cut = HTTP_RESET, .at = HTTP_BEFORE_HEAD});
    assert_ok(put(f, store, "mine", &keep, &err), &err);
    check(f, "/new/mine");
    http_server_mend(f->server);
    http_server_fault(f->server, &(http_fault){.method = "PUT", .count = 1, .status = 500});
    large[LARGE - 1] ^= 1;
    assert_fails(put(f, store, "mine", &keep, &err), STK_EEXIST, &err, "mine");
    stk_store_close(&store);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bounded, set_up, tear_down_all),
        cmocka_unit_test_setup_teardown(test_upload_in_progress, set_up, tear_down_all),
        cmocka_unit_test_setup_teardown(test_sent_again, set_up, tear_down_all),
        cmocka_unit_test_setup_teardown(test_lost_answer, set_up, tear_down_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
