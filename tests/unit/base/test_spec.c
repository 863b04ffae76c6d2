/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base.h"

#include <stdlib.h>

#include "base/spec.h"
#include "support/faults.h"
#include "support/support.h"

typedef struct mnist_options {
    uint32_t struct_size;
    bool train;
    uint64_t subset;
    const char *labels, *images;
} mnist_options;

static const stk_option options[] = {
    {"train", STK_OPTION_BOOL, offsetof(mnist_options, train), "false", 0, 0, NULL, NULL,
     "Training part."},
    {"sub_set", STK_OPTION_UINT, offsetof(mnist_options, subset), "0", 0, 1e6, NULL, NULL,
     "First samples only."},
    {"labels", STK_OPTION_STRING, offsetof(mnist_options, labels), NULL, 0, 0, NULL, NULL, "File."},
    {"images", STK_OPTION_STRING, offsetof(mnist_options, images), NULL, 0, 0, NULL, NULL, "File."},
};
static const stk_option_table table = {"mnist", "Digits.", sizeof(mnist_options), options, 4};

static stk_context *context;
static mnist_options o;
static char *texts;
static stk_error err;

/* Take the options of `from`; exactly its bytes, so that a look beyond them is seen. */
static stk_status take(const char *from, char **rest)
{
    size_t size = strlen(from) + 1;

    *rest = malloc(size);
    memcpy(*rest, from, size);
    stk_options_init(&table, &o, sizeof o);
    return stk__spec_take(context, *rest, &table, &o, &texts, &err);
}

static void leaves(const char *from, const char *expected)
{
    char *rest;

    assert_ok(take(from, &rest), &err);
    assert_string_equal(rest, expected);
    free(rest);
}

static void done(void)
{
    stk_memory_stats stats = {.struct_size = sizeof stats};

    stk__free(context, texts);
    texts = NULL;
    stk_context_memory(context, &stats);
    assert_int_equal(stats.bytes, 0);
}

static void test_takes_what_it_knows(void **state)
{
    (void)state;
    leaves("DIR", "DIR");
    assert_null(texts);
    leaves("", "");
    leaves("DIR?", "DIR");
    leaves("DIR?&&", "DIR");
    assert_null(texts);
    leaves("DIR?train", "DIR");
    assert_true(o.train);
    assert_null(texts);
    leaves("slow+file:///d?latency=5ms&train=yes&bandwidth=1MB/s&sub-set=12",
           "slow+file:///d?latency=5ms&bandwidth=1MB/s");
    assert_true(o.train);
    assert_int_equal(o.subset, 12);
    done();
    leaves("DIR?train=1&train=0", "DIR");
    assert_false(o.train);
    done();
    leaves("DIR?other&more=%zz&train=1&last=", "DIR?other&more=%zz&last=");
    done();
    leaves("DIR?labels=a%20b%2Fc%3F%26%25&x=1&images=", "DIR?x=1");
    assert_string_equal(o.labels, "a b/c?&%");
    assert_string_equal(o.images, "");
    done();
    leaves("DIR?labels=a=b?c&images=x", "DIR");
    assert_string_equal(o.labels, "a=b?c");
    assert_string_equal(o.images, "x");
    done();
}

static void refuses(const char *from, const char *part)
{
    char *rest;

    assert_fails(take(from, &rest), STK_EINVAL, &err, part);
    assert_null(texts);
    free(rest);
    done();
}

static void test_refuses(void **state)
{
    (void)state;
    refuses("DIR?train=perhaps", "mnist.train: 'perhaps' is not allowed; it takes true or false");
    refuses("DIR?sub_set=2000000", "out of range");
    refuses("DIR?sub_set", "mnist.sub_set: no value; write sub_set=VALUE");
    refuses("DIR?sub_set=", "not allowed");
    refuses("DIR?labels=a%2", "mnist.labels: 'a%2' has a broken %-escape");
    refuses("DIR?labels=%", "broken");
    refuses("DIR?labels=%zz&x=1", "broken");
    refuses("DIR?labels=a%00b", "broken");
    refuses("DIR?x&labels=%2&train=41", "'%2'");
}

static void test_no_memory(void **state)
{
    stk_context *before = context;
    stk_context_options co;
    faults f = {.left = FAULTS_NONE, .for_good = true};
    char *rest;

    (void)state;
    stk_context_options_init(&co);
    co.allocator = (stk_allocator){faulty_alloc, faulty_free, &f};
    assert_ok(stk_context_create(&co, &context, &err), &err);
    f.left = 0;
    assert_int_equal(take("DIR?train=1", &rest), STK_ENOMEM);
    free(rest);
    stk_context_destroy(&context);
    context = before;
}

/* Random queries: never a crash, and what is left has none of the names known. */
static void test_random_queries(void **state_)
{
    static const char letters[] = "?&=%trainlbes20Af-_";
    uint64_t state = 7;

    (void)state_;
    for (int i = 0; i < 20000; i++) {
        char from[64] = "d?train=1&";
        size_t length = test_random(&state) % 50;
        for (size_t j = 0; j < length; j++)
            from[10 + j] = letters[test_random(&state) % (sizeof letters - 1)];
        from[10 + length] = 0;
        char *rest;
        stk_status status = take(from, &rest);
        if (status == STK_OK)
            assert_null(strstr(rest, "train=1&"));
        else
            assert_int_equal(status, STK_EINVAL);
        free(rest);
        done();
    }
}

static int setup(void **state)
{
    (void)state;
    context = test_context();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    stk_context_destroy(&context);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_takes_what_it_knows),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_random_queries),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
