/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of functions that outsiders write: each member that one must have is missed by name. */
#include <stdio.h>

#include "base/table.h"
#include "device/device.h"

#include "support/support.h"

typedef struct fixture {
    stk_context *context;
    stk_trainer *trainer;
} fixture;

static stk_status add_store(fixture *f, const void *ops, stk_error *err)
{
    return stk_driver_add(f->context, STK_DRIVER_STORE, ops, err);
}

static stk_status add_dataset(fixture *f, const void *ops, stk_error *err)
{
    return stk_driver_add(f->context, STK_DRIVER_DATASET, ops, err);
}

static stk_status add_transform(fixture *f, const void *ops, stk_error *err)
{
    return stk_driver_add(f->context, STK_DRIVER_TRANSFORM, ops, err);
}

static stk_status add_format(fixture *f, const void *ops, stk_error *err)
{
    return stk_driver_add(f->context, STK_DRIVER_ARRAY, ops, err);
}

static stk_status add_converter(fixture *f, const void *ops, stk_error *err)
{
    return stk_driver_add(f->context, STK_DRIVER_CONVERTER, ops, err);
}

static stk_status add_device(fixture *f, const void *ops, stk_error *err)
{
    return stk_driver_add(f->context, STK_DRIVER_DEVICE, ops, err);
}

static stk_status add_layer(fixture *f, const void *ops, stk_error *err)
{
    return stk_driver_add(f->context, STK_DRIVER_LAYER, ops, err);
}

static stk_status add_logger(fixture *f, const void *ops, stk_error *err)
{
    return stk_trainer_add_logger(f->trainer, ops, NULL, err);
}

static stk_status add_callback(fixture *f, const void *ops, stk_error *err)
{
    return stk_trainer_add_callback(f->trainer, ops, NULL, NULL, err);
}

#define TASK(name)                                                                                 \
    static stk_status name(fixture *f, const void *ops, stk_error *err)                            \
    {                                                                                              \
        const stk_trainer_data data = {.struct_size = sizeof data};                                \
        stk_module module = {.ops = ops};                                                          \
                                                                                                   \
        return stk_trainer_##name(f->trainer, &module, &data, NULL, err);                          \
    }
TASK(fit)
TASK(validate)
TASK(test)
TASK(predict)

/* A dataset of the caller's own, of no kind. */
static stk_status load(fixture *f, const void *ops, stk_error *err)
{
    const stk_dataset_info info = {.struct_size = sizeof info};
    stk_dataset *dataset = NULL;

    return stk_dataset_create(f->context, ops, NULL, &info, &dataset, err);
}

static stk_status make_callback(stk_context *ctx, const void *options, stk_callback **out,
                                stk_error *err)
{
    return stk__fail(err, STK_EIO, STK_STAGE_TRAIN, "no callback is made");
}

static void never(void)
{
    fail();
}

#define M(type, member)                                                                            \
    {                                                                                              \
#member, offsetof(type, member)                                                            \
    }

/* What each kind must have, and what becomes of a table that has it all: it is called, or it goes
 * on to the next thing that is amiss. */
static const struct kind {
    const char *type;
    stk_status (*give)(fixture *f, const void *ops, stk_error *err);
    size_t size;
    struct {
        const char *name;
        size_t offset;
    } required[24];
    stk_status whole;
} kinds[] = {
    {"stk_store_ops",
     add_store,
     sizeof(stk_store_ops),
     {M(stk_store_ops, open), M(stk_store_ops, close), M(stk_store_ops, submit),
      M(stk_store_ops, cancel), M(stk_store_ops, stat)},
     STK_OK},
    {"stk_dataset_ops",
     add_dataset,
     sizeof(stk_dataset_ops),
     {M(stk_dataset_ops, open), M(stk_dataset_ops, close), M(stk_dataset_ops, prepare),
      M(stk_dataset_ops, locate), M(stk_dataset_ops, object)},
     STK_OK},
    {"stk_dataset_ops",
     load,
     sizeof(stk_dataset_ops),
     {M(stk_dataset_ops, close), M(stk_dataset_ops, prepare), M(stk_dataset_ops, locate),
      M(stk_dataset_ops, object)},
     STK_EINVAL},
    {"stk_transform_ops",
     add_transform,
     sizeof(stk_transform_ops),
     {M(stk_transform_ops, create), M(stk_transform_ops, destroy), M(stk_transform_ops, plan),
      M(stk_transform_ops, apply)},
     STK_OK},
    {"stk_array_format_ops",
     add_format,
     sizeof(stk_array_format_ops),
     {M(stk_array_format_ops, recognise), M(stk_array_format_ops, open)},
     STK_OK},
    {"stk_converter_ops",
     add_converter,
     sizeof(stk_converter_ops),
     {M(stk_converter_ops, accepts), M(stk_converter_ops, run), M(stk_converter_ops, from),
      M(stk_converter_ops, doc)},
     STK_OK},
    {"stk_logger_ops",
     add_logger,
     sizeof(stk_logger_ops),
     {M(stk_logger_ops, open), M(stk_logger_ops, close), M(stk_logger_ops, log_metrics)},
     STK_OK},
    {"stk_callback_ops",
     add_callback,
     sizeof(stk_callback_ops),
     {M(stk_callback_ops, create), M(stk_callback_ops, destroy)},
     STK_EIO},
    {"stk_module_ops",
     fit,
     sizeof(stk_module_ops),
     {M(stk_module_ops, training_step), M(stk_module_ops, backward),
      M(stk_module_ops, optimizer_step)},
     STK_EINVAL},
    {"stk_module_ops",
     validate,
     sizeof(stk_module_ops),
     {M(stk_module_ops, validation_step)},
     STK_EINVAL},
    {"stk_device_ops",
     add_device,
     sizeof(stk_device_ops),
     {M(stk_device_ops, count),
      M(stk_device_ops, open),
      M(stk_device_ops, close),
      M(stk_device_ops, info),
      M(stk_device_ops, alloc),
      M(stk_device_ops, free),
      M(stk_device_ops, alloc_host),
      M(stk_device_ops, free_host),
      M(stk_device_ops, stream_create),
      M(stk_device_ops, stream_destroy),
      M(stk_device_ops, stream_synchronize),
      M(stk_device_ops, copy),
      M(stk_device_ops, fill),
      M(stk_device_ops, event_create),
      M(stk_device_ops, event_destroy),
      M(stk_device_ops, event_record),
      M(stk_device_ops, stream_wait),
      M(stk_device_ops, event_query),
      M(stk_device_ops, event_elapsed),
      M(stk_device_ops, fold)},
     STK_OK},
    {"stk_layer_ops",
     add_layer,
     sizeof(stk_layer_ops),
     {M(stk_layer_ops, shape), M(stk_layer_ops, forward), M(stk_layer_ops, backward)},
     STK_OK},
    {"stk_module_ops", test, sizeof(stk_module_ops), {M(stk_module_ops, test_step)}, STK_EINVAL},
    {"stk_module_ops",
     predict,
     sizeof(stk_module_ops),
     {M(stk_module_ops, predict_step)},
     STK_EINVAL},
};

/* A table that has all that its kind must have, and the fields that every kind begins with. */
typedef union table {
    struct {
        uint32_t struct_size;
        const char *name;
    } head;
    unsigned char bytes[1024];
} table;

static void set(table *to, size_t offset, void (*function)(void))
{
    memcpy(to->bytes + offset, &function, sizeof function);
}

static table whole(const struct kind *k)
{
    table to = {.head = {.struct_size = (uint32_t)k->size, .name = "own"}};

    assert_true(k->size <= sizeof to);
    for (size_t i = 0; k->required[i].name; i++)
        set(&to, k->required[i].offset, never);
    if (k->give == add_callback)
        set(&to, offsetof(stk_callback_ops, create), (void (*)(void))make_callback);
    return to;
}

static void set_up(fixture *f)
{
    const stk_trainer_options *defaults = NULL;
    stk_error err;

    f->context = test_context();
    assert_ok(stk_trainer_create(f->context, defaults, &f->trainer, &err), &err);
}

static void refused(const struct kind *k, const void *ops, const char *part)
{
    stk_error err;
    fixture f;

    set_up(&f);
    assert_fails(k->give(&f, ops, &err), STK_EINVAL, &err, part);
    assert_non_null(strstr(err.text, k->type));
    stk_trainer_destroy(&f.trainer);
    stk_context_destroy(&f.context);
}

static void what_is_missing_is_named(void **state)
{
    for (size_t n = 0; n < STK_COUNT(kinds); n++)
        for (size_t i = 0; kinds[n].required[i].name; i++) {
            table bad = whole(&kinds[n]);
            char part[80];

            set(&bad, kinds[n].required[i].offset, NULL);
            snprintf(part, sizeof part, "'own' lacks %s", kinds[n].required[i].name);
            refused(&kinds[n], &bad, part);
        }
}

static void heads_are_checked(void **state)
{
    for (size_t n = 0; n < STK_COUNT(kinds); n++) {
        static const uint32_t sizes[] = {0, 8, STK__TABLE_MOST + 1, UINT32_MAX};
        table bad;

        refused(&kinds[n], NULL, "no table");
        for (size_t i = 0; i < STK_COUNT(sizes); i++) {
            bad = whole(&kinds[n]);
            bad.head.struct_size = sizes[i];
            refused(&kinds[n], &bad, "struct_size");
        }
        for (size_t i = 0; i < 2; i++) {
            bad = whole(&kinds[n]);
            bad.head.name = i ? "" : NULL;
            refused(&kinds[n], &bad, "lacks its name");
        }
    }
}

/* Nothing more is wanted, and a table of a later version, which is larger, is taken. */
static void what_is_whole_is_taken(void **state)
{
    for (size_t n = 0; n < STK_COUNT(kinds); n++) {
        stk_error err;
        fixture f;

        for (uint32_t more = 0; more <= 64; more += 64) {
            table good = whole(&kinds[n]);

            set_up(&f);
            good.head.struct_size += more;
            assert_int_equal(kinds[n].give(&f, &good, &err), kinds[n].whole);
            assert_null(strstr(err.text, "lacks"));
            stk_trainer_destroy(&f.trainer);
            stk_context_destroy(&f.context);
        }
    }
}

/* ---- What an outsider's function gives ---- */

static stk_status answer;

static stk_status give_status(void)
{
    return answer;
}

static const struct kind *kind_of(const char *type)
{
    for (size_t i = 0; i < STK_COUNT(kinds); i++)
        if (strcmp(kinds[i].type, type) == 0)
            return &kinds[i];
    fail_msg("no kind %s", type);
    return NULL;
}

/* Open or create with success and nothing, and with an answer in place of a status. */
static stk_status make_store(fixture *f, stk_error *err)
{
    const struct kind *k = kind_of("stk_store_ops");
    static table ops;
    stk_store *store = NULL;

    ops = whole(k);
    set(&ops, offsetof(stk_store_ops, open), (void (*)(void))give_status);
    assert_int_equal(stk_driver_add(f->context, STK_DRIVER_STORE, (const void *)&ops, err), STK_OK);
    stk_status status = stk_store_open(f->context, "own://x", &store, NULL, 0, err);
    assert_null(store);
    return status;
}

static stk_status make_dataset(fixture *f, stk_error *err)
{
    const struct kind *k = kind_of("stk_dataset_ops");
    static table ops;
    stk_dataset *dataset = NULL;

    ops = whole(k);
    set(&ops, offsetof(stk_dataset_ops, open), (void (*)(void))give_status);
    set(&ops, offsetof(stk_dataset_ops, recognise), NULL);
    assert_int_equal(stk_driver_add(f->context, STK_DRIVER_DATASET, (const void *)&ops, err),
                     STK_OK);
    stk_status status = stk_dataset_open(f->context, "own:x", &dataset, err);
    assert_null(dataset);
    return status;
}

static stk_status make_transform(fixture *f, stk_error *err)
{
    const struct kind *k = kind_of("stk_transform_ops");
    static table ops;
    stk_dataset *digits = NULL;
    stk_loader *loader = NULL;
    stk_loader_options o;

    ops = whole(k);
    set(&ops, offsetof(stk_transform_ops, create), (void (*)(void))give_status);
    assert_int_equal(stk_driver_add(f->context, STK_DRIVER_TRANSFORM, (const void *)&ops, err),
                     STK_OK);
    assert_int_equal(stk_dataset_open(f->context, "digits:", &digits, err), STK_OK);
    stk_loader_options_init(&o);
    o.transforms = "own";
    stk_status status = stk_loader_create(digits, &o, &loader, err);
    assert_null(loader);
    stk_dataset_close(&digits);
    return status;
}

static stk_status make_own_callback(fixture *f, stk_error *err)
{
    table ops = whole(kind_of("stk_callback_ops"));

    set(&ops, offsetof(stk_callback_ops, create), (void (*)(void))give_status);
    return stk_trainer_add_callback(f->trainer, (const void *)&ops, NULL, NULL, err);
}

static stk_status make_device(fixture *f, stk_error *err)
{
    table ops = whole(kind_of("stk_device_ops"));
    stk_device *device = NULL;

    set(&ops, offsetof(stk_device_ops, open), (void (*)(void))give_status);
    stk_status status = stk__device_open(f->context, (const void *)&ops, 0, &device, err);
    assert_null(device);
    return status;
}

/* Loggers are opened when something is asked of the trainer. */
static stk_status make_logger(fixture *f, stk_error *err)
{
    table ops = whole(kind_of("stk_logger_ops")), steps = whole(kind_of("stk_module_ops"));
    stk_module module = {.ops = (const void *)&steps};
    stk_loader_options options;
    stk_dataset *digits = NULL;

    set(&steps, offsetof(stk_module_ops, test_step), never);
    set(&ops, offsetof(stk_logger_ops, open), (void (*)(void))give_status);
    assert_int_equal(add_logger(f, &ops, err), STK_OK);
    assert_int_equal(stk_dataset_open(f->context, "digits:", &digits, err), STK_OK);
    stk_loader_options_init(&options);
    const stk_loader_source source = {
        .struct_size = sizeof source, .dataset = digits, .options = &options};
    const stk_trainer_data data = {.struct_size = sizeof data, .test = &source, .num_test = 1};
    stk_status status = stk_trainer_test(f->trainer, &module, &data, NULL, err);
    stk_dataset_close(&digits);
    return status;
}

static void what_is_given_is_checked(void **state)
{
    stk_status (*const make[])(fixture * f, stk_error * err) = {
        make_store, make_dataset, make_transform, make_own_callback, make_device, make_logger};

    for (size_t i = 0; i < STK_COUNT(make); i++)
        for (int k = 0; k < 2; k++) {
            stk_error err;
            fixture f;

            set_up(&f);
            answer = k ? STK_EOS : STK_OK;
            assert_fails(make[i](&f, &err), STK_EINVAL, &err, "");
            assert_non_null(strstr(err.text, k ? "STK_EOS" : i == 1 ? "no dataset" : "nothing"));
            stk_trainer_destroy(&f.trainer);
            stk_context_destroy(&f.context);
        }
}

static const stk_option no_doc = {.name = "a", .type = STK_OPTION_INT, .offset = 8, .initial = "0"};
static const stk_option_table unsound = {
    .name = "own", .doc = "For tests.", .struct_size = 16, .options = &no_doc, .count = 1};

/* The options of a kind are as sound as our own. */
static void options_of_kinds_are_checked(void **state)
{
    static const struct {
        const char *type;
        size_t offset;
    } cases[] = {{"stk_dataset_ops", offsetof(stk_dataset_ops, options)},
                 {"stk_transform_ops", offsetof(stk_transform_ops, options)},
                 {"stk_array_format_ops", offsetof(stk_array_format_ops, options)},
                 {"stk_converter_ops", offsetof(stk_converter_ops, options)},
                 {"stk_logger_ops", offsetof(stk_logger_ops, options)},
                 {"stk_callback_ops", offsetof(stk_callback_ops, options)},
                 {"stk_layer_ops", offsetof(stk_layer_ops, options)}};
    const stk_option_table *table_of_options = &unsound;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const struct kind *k = kind_of(cases[i].type);
        table ops = whole(k);
        stk_error err;
        fixture f;

        set_up(&f);
        memcpy(ops.bytes + cases[i].offset, &table_of_options, sizeof table_of_options);
        assert_fails(k->give(&f, &ops, &err), STK_EINTERNAL, &err, "it has no doc");
        stk_trainer_destroy(&f.trainer);
        stk_context_destroy(&f.context);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_is_named),     cmocka_unit_test(heads_are_checked),
        cmocka_unit_test(what_is_whole_is_taken),       cmocka_unit_test(what_is_given_is_checked),
        cmocka_unit_test(options_of_kinds_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
