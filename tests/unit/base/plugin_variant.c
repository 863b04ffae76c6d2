/* SPDX-License-Identifier: Apache-2.0 */
/* Plug-ins for test_plugin.c: one for each VARIANT. */
#include <stoker/stoker.h>

#define GOOD    0
#define LATER   1
#define SMALL   2
#define COPY    3
#define TWICE   4
#define TAKEN   5
#define LONGER  6
#define EMPTY   7
#define OTHER   8
#define NOTHING 9

#if VARIANT != NOTHING

static stk_status open_none(stk_context *context, const char *url, const void *options,
                            stk_dataset **out, stk_error *err)
{
    return STK_ENOENT;
}

static void close_none(stk_dataset *dataset)
{
}

static void prepare_none(stk_dataset *dataset, stk_sample *samples, size_t n)
{
}

#define DATASET(dataset_name)                                                                      \
    {                                                                                              \
        .struct_size = sizeof(stk_dataset_ops), .name = dataset_name, .doc = "of a test",          \
        .open = open_none, .close = close_none, .prepare = prepare_none                            \
    }

/* As a later version of the headers has it. */
static const struct longer {
    stk_dataset_ops known;
    void (*unknown[4])(void);
} own = {
    .known = {.struct_size = VARIANT == LONGER ? sizeof(struct longer) : sizeof(stk_dataset_ops),
              .name = "own",
              .doc = "of a test",
              .open = open_none,
              .close = close_none,
              .prepare = prepare_none}};
static const stk_dataset_ops second = DATASET(VARIANT == TWICE   ? "own"
                                              : VARIANT == TAKEN ? "digits"
                                                                 : "second");

static const stk_plugin_driver drivers[] = {
    {STK_DRIVER_DATASET, &own},
    {VARIANT == OTHER ? STK_DRIVER_CONVERTER : STK_DRIVER_DATASET, &second}};

static const char *other_version(void)
{
    return "9.9.9";
}

STK_API const stk_plugin stk_plugin_entry;
STK_API const stk_plugin stk_plugin_entry = {
    .struct_size = VARIANT == SMALL ? 8 : sizeof(stk_plugin),
    .interface_version = VARIANT == LATER ? STK_PLUGIN_INTERFACE + 1 : STK_PLUGIN_INTERFACE,
    .library = VARIANT == COPY ? other_version : stk_version,
    .name = "variant",
    .doc = "of a test",
    .drivers = drivers,
    .num_drivers = VARIANT == EMPTY ? 0 : 2};

#else

STK_API int nothing_of_stoker = 1;

#endif
