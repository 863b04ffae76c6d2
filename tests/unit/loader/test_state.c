/* SPDX-License-Identifier: Apache-2.0 */
/* States as text: every number counts, and a text that was changed is refused. */
#include <stdio.h>
#include <xxhash.h>

#include "unit/loader/run.h"

static const char *const names[] = {
    "epoch",      "step",           "fingerprint", "size",       "seed",     "global_batch_size",
    "block_size", "shuffle_buffer", "streams",     "transforms", "on_error", "shuffle",
    "drop_last",  "bucket_window"};

enum { NAMES = sizeof names / sizeof *names };

/* The text of a state with one number replaced, and with a check that fits. */
static void with_number(const char *text, const char *name, uint64_t value, char *out, size_t size)
{
    char find[40];

    snprintf(find, sizeof find, " %s=", name);
    const char *at = strstr(text, find), *check = strstr(text, " check=");
    assert_non_null(at);
    assert_non_null(check);
    const char *end = at + 1 + strcspn(at + 1, " ");
    int n = snprintf(out, size, "%.*s%s%llu%.*s", (int)(at - text), text, find,
                     (unsigned long long)value, (int)(check - end), end);
    snprintf(out + n, size - (size_t)n, " check=%016llx",
             (unsigned long long)XXH3_64bits(out, (size_t)n));
}

static uint64_t number_of(const char *text, const char *name)
{
    char find[40];

    snprintf(find, sizeof find, " %s=", name);
    return strtoull(strstr(text, find) + strlen(find), NULL, 10);
}

static stk_loader_options block_options(void)
{
    stk_loader_options o = base_options();

    o.shuffle = STK_SHUFFLE_BLOCK;
    o.block_size = 8;
    o.shuffle_buffer = 3;
    o.streams = 2;
    o.num_workers = 0;
    return o;
}

/* A number that differs is a state of something else: each is named. */
static void each_number_counts(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 160});
    stk_loader_options o = block_options();
    stk_loader *loader = open_loader(dataset, &o);
    char text[500], changed[600];
    stk_loader_state saved;
    stk_error err;

    stk_loader_get_state(loader, &saved);
    assert_in_range(stk_loader_state_format(&saved, text, sizeof text), 100, sizeof text - 1);
    for (int i = 0; i < NAMES; i++) {
        stk_loader_state parsed;
        const uint64_t value = number_of(text, names[i]);
        const bool place = i < 2;
        with_number(text, names[i],
                    i == NAMES - 1 ? 1 - value
                    : i == 11      ? 1
                                   : value + 1,
                    changed, sizeof changed);
        assert_ok(stk_loader_state_parse(changed, &parsed, &err), &err);
        assert_true(memcmp(&parsed, &saved, sizeof saved) != 0);
        if (place) /* of it there may be any */
            assert_ok(stk_loader_restore(loader, &parsed, &err), &err);
        else
            assert_fails(stk_loader_restore(loader, &parsed, &err), STK_EMISMATCH, &err, names[i]);
        if (place) {
            stk_loader_state at;
            stk_loader_get_state(loader, &at);
            assert_int_equal(at.epoch, parsed.epoch);
            assert_int_equal(at.step, parsed.step);
        }
    }
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

/* One character changed, added or left out: refused, by format or by check. */
static void a_changed_text_is_refused(void **state)
{
    stk_context *ctx = test_context();
    stk_dataset *dataset = counting_open(ctx, &(counting_options){.size = 160});
    stk_loader_options o = block_options();
    stk_loader *loader = open_loader(dataset, &o);
    char text[500], changed[510];
    stk_loader_state saved, parsed;
    stk_error err;

    stk_loader_get_state(loader, &saved);
    const int n = stk_loader_state_format(&saved, text, sizeof text);
    for (int i = 0; i < n; i++) {
        memcpy(changed, text, sizeof text);
        changed[i] = (char)(changed[i] == '7' ? '8' : '7');
        assert_int_not_equal(stk_loader_state_parse(changed, &parsed, &err), STK_OK);
        snprintf(changed, sizeof changed, "%.*s", i, text);
        assert_int_not_equal(stk_loader_state_parse(changed, &parsed, &err), STK_OK);
        snprintf(changed, sizeof changed, "%.*s %s", i, text, text + i);
        assert_int_not_equal(stk_loader_state_parse(changed, &parsed, &err), STK_OK);
    }
    snprintf(changed, sizeof changed, "%s\n\n", text);
    assert_int_not_equal(stk_loader_state_parse(changed, &parsed, &err), STK_OK);
    snprintf(changed, sizeof changed, "%s ", text);
    assert_fails(stk_loader_state_parse(changed, &parsed, &err), STK_ECHECKSUM, &err, "check");
    snprintf(changed, sizeof changed, "%s\n", text);
    assert_ok(stk_loader_state_parse(changed, &parsed, &err), &err);
    assert_int_equal(strncmp(text, "stoker-state ", 13), 0);
    snprintf(changed, sizeof changed, "stoker-state +%s", text + 13);
    assert_fails(stk_loader_state_parse(changed, &parsed, &err), STK_EFORMAT, &err, "version");
    /* Numbers beyond 64 bits, and words in their place. */
    static const char *const wrong[] = {"stoker-state 4 epoch=18446744073709551616 step=0",
                                        "stoker-state 4 epoch=-1",
                                        "stoker-state 4 epoch= 1",
                                        "stoker-state 4  epoch=1",
                                        "stoker-state 4",
                                        ""};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(stk_loader_state_parse(wrong[i], &parsed, &err), STK_EFORMAT);
    /* Also where the check fits. */
    const char *rest = strstr(text, " step="), *check = strstr(text, " check=");
    int length = snprintf(changed, sizeof changed, "stoker-state 4 epoch=18446744073709551616%.*s",
                          (int)(check - rest), rest);
    snprintf(changed + length, sizeof changed - (size_t)length, " check=%016llx",
             (unsigned long long)XXH3_64bits(changed, (size_t)length));
    assert_fails(stk_loader_state_parse(changed, &parsed, &err), STK_EFORMAT, &err, "epoch");
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

static void count_warnings(void *user, stk_message_level level, const char *message)
{
    *(int *)user += level == STK_MESSAGE_WARNING && strstr(message, "transforms");
}

/* Other transforms, another on_error: refused, or said and gone on with. */
static void other_values_are_noticed(void **state)
{
    stk_context_options options;
    stk_context *ctx;
    stk_error err;
    int warnings = 0;

    stk_context_options_init(&options);
    options.on_message = count_warnings;
    options.on_message_user = &warnings;
    assert_ok(stk_context_create(&options, &ctx, &err), &err);
    stk_dataset *dataset = NULL;
    assert_ok(stk_dataset_open(ctx, "digits:", &dataset, &err), &err);
    static const char *const lists[][2] = {{NULL, NULL},
                                           {"horizontal_flip", NULL},
                                           {"horizontal_flip(0.25)", NULL},
                                           {NULL, "mixup(0.2)"},
                                           {"horizontal_flip", "mixup(0.2)"}};
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 5; k++)
            for (int warn = 0; warn < 2; warn++) {
                stk_loader_options o = base_options();
                stk_loader_state saved;
                o.transforms = lists[i][0];
                o.batch_transforms = lists[i][1];
                stk_loader *loader = open_loader(dataset, &o);
                stk_loader_get_state(loader, &saved);
                stk_loader_destroy(&loader);
                o.transforms = lists[k][0];
                o.batch_transforms = lists[k][1];
                o.on_state_mismatch = warn;
                loader = open_loader(dataset, &o);
                warnings = 0;
                if (i == k || warn)
                    assert_ok(stk_loader_restore(loader, &saved, &err), &err);
                else
                    assert_fails(stk_loader_restore(loader, &saved, &err), STK_EMISMATCH, &err,
                                 "on_state_mismatch");
                assert_int_equal(warnings, i != k && warn);
                stk_loader_destroy(&loader);
            }
    /* Blanks do not count, nor does an empty list. */
    stk_loader_options o = base_options();
    stk_loader_state saved;
    o.transforms = "horizontal_flip( 0.25 )";
    o.batch_transforms = "";
    stk_loader *loader = open_loader(dataset, &o);
    stk_loader_get_state(loader, &saved);
    stk_loader_destroy(&loader);
    o.transforms = "horizontal_flip(0.25)";
    o.batch_transforms = NULL;
    loader = open_loader(dataset, &o);
    assert_ok(stk_loader_restore(loader, &saved, &err), &err);
    stk_loader_destroy(&loader);
    stk_dataset_close(&dataset);
    stk_context_destroy(&ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_number_counts),
        cmocka_unit_test(a_changed_text_is_refused),
        cmocka_unit_test(other_values_are_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
