/* SPDX-License-Identifier: Apache-2.0 */
/* Packed pictures: what they are, how they go on, and that a loader gives what the same transforms
 * make of the source. */
#include "packed.h"

#include <sys/wait.h>

#define KILLED 42

/* What a test has: pictures to be packed, where to, and how. */
typedef struct room {
    stk_context *ctx;
    char from[256], to[256], spec[300], target[300], packed[320];
    packed_run run;
    stk_error err;
} room;

static int begin(void **state)
{
    static room r;

    r.ctx = test_context();
    test_folder(r.from);
    test_folder(r.to);
    tree_make(r.from);
    snprintf(r.spec, sizeof r.spec, "images:%s?index=none", r.from);
    snprintf(r.target, sizeof r.target, "%s/x.zarr", r.to);
    snprintf(r.packed, sizeof r.packed, "images:%s", r.target);
    packed_run_init(&r.run);
    *state = &r;
    return 0;
}

static int end(void **state)
{
    room *r = *state;

    test_folder_remove(r->from);
    test_folder_remove(r->to);
    stk_context_destroy(&r->ctx);
    return 0;
}

/* Convert a source to the target. */
static stk_status pack(room *r, const char *from)
{
    return packed_convert(r->ctx, &r->run, from, r->target, &r->err);
}

/* ---- Round trips ----------------------------------------------------------------------------- */

/* Whatever the loader is told: the packed pictures are those of the source, in the same order. */
static void same_loads(const room *r, const char *packing, const char *then)
{
    char all[128];

    snprintf(all, sizeof all, "%s%s%s", packing, *then ? ", " : "", then);
    packed_load a = packed_loading(r->spec, all), b = packed_loading(r->packed, then);
    for (int i = 0; i < 8; i++) {
        b.options.num_workers = i % 3;
        a.options.batch_size = b.options.batch_size = (uint64_t)(1 + i * i % 7);
        a.options.shuffle = b.options.shuffle = i & 1 ? STK_SHUFFLE_FULL : STK_SHUFFLE_NONE;
        a.options.seed = b.options.seed = (uint64_t)i;
        b.options.cache = i & 2 ? STK_CACHE_DECODED : STK_CACHE_NONE;
        assert_int_equal(packed_same(r->ctx, &a, &b), 2 * TREE_FILES);
    }
    /* In blocks the packed ones are their own order, which no worker changes. */
    a = b;
    a.options.shuffle = b.options.shuffle = STK_SHUFFLE_BLOCK;
    a.options.num_workers = 0;
    b.options.num_workers = 2;
    assert_int_equal(packed_same(r->ctx, &a, &b), 2 * TREE_FILES);
}

static void test_one_size(void **state)
{
    room *r = *state;

    r->run.own.size = "20x24";
    r->run.options.num_workers = 2;
    assert_ok(pack(r, r->spec), &r->err);
    assert_int_equal(r->run.report.total, TREE_FILES);
    assert_int_equal(r->run.report.verified, TREE_FILES);
    assert_int_equal(r->run.report.skipped, 0);
    same_loads(r, "resize(24), center_crop(20x24)", "");
    same_loads(r, "resize(24), center_crop(20x24)", "center_crop(16), normalize(imagenet)");
    /* Without checksums it is the same. */
    r->run.own.checksum = false;
    r->run.options.overwrite = true;
    assert_ok(pack(r, r->spec), &r->err);
    same_loads(r, "resize(24), center_crop(20x24)", "");
}

static void test_short_side(void **state)
{
    room *r = *state;

    r->run.own.short_side = 20;
    r->run.options.num_workers = 2;
    assert_ok(pack(r, r->spec), &r->err);
    assert_int_equal(r->run.report.total, TREE_FILES);
    same_loads(r, "resize(20)", "center_crop(16x18)");
}

/* A picture whose header begins late in its file, by so many bytes. */
#define LATE 800040
static void add_late(const char *folder)
{
    static uint8_t file[1 << 20] = {0xff, 0xd8};
    size_t used = 2;

    tree_add(folder, "base_420.jpg", "cat/base.jpg");
    bytes base = tree_load(folder, "cat/base.jpg");
    for (; used < LATE; used += 40002)
        memcpy(file + used, "\xff\xef\x9c\x40", 4); /* APP15 of 40000 bytes */
    memcpy(file + used, base.data + 2, base.size - 2);
    test_write(folder, "cat/late.jpg", file, used + base.size - 2);
    free(base.data);
}

/* One class alone, whose labels are all 0, and a header that begins late in its file. */
static void test_one_class(void **state)
{
    room *r = *state;

    char alone[256];

    snprintf(r->spec, sizeof r->spec, "images:%s?index=none", test_folder(alone));
    add_late(alone);
    r->run.own.short_side = 20;
    assert_ok(pack(r, r->spec), &r->err);
    const packed_load a = packed_loading(r->spec, "resize(20), center_crop(18)"),
                      b = packed_loading(r->packed, "center_crop(18)");
    assert_int_equal(packed_same(r->ctx, &a, &b), 4);
    test_folder_remove(alone);
}

/* Pictures of one size need no options; small ones share chunks, of which the last is short. In
 * small shards they make several groups. */
static void test_classic(void **state)
{
    room *r = *state;

    for (int i = 0; i < 2; i++) {
        r->run.own.shard_size = i ? 4096 : 40000;
        assert_ok(pack(r, "digits:?size=2999"), &r->err);
        const packed_load a = packed_loading("digits:?size=2999", "");
        packed_load b = packed_loading(r->packed, "");
        assert_int_equal(packed_same(r->ctx, &a, &b), 5998);
        /* Without a prefix it is known by what it says of itself. */
        b.spec = r->target;
        assert_int_equal(packed_same(r->ctx, &a, &b), 5998);
        test_folder_remove(r->target);
    }
}

/* From where a loader stopped, another goes on. */
static void test_goes_on(void **state)
{
    room *r = *state;
    stk_dataset *dataset = NULL;
    stk_loader *loader[2] = {NULL, NULL};
    stk_batch *batch[2] = {NULL, NULL};
    stk_loader_state at;

    r->run.own.size = "16";
    assert_ok(pack(r, r->spec), &r->err);
    packed_load load = packed_loading(r->packed, "horizontal_flip");
    load.options.shuffle = STK_SHUFFLE_BLOCK;
    assert_ok(stk_dataset_open(r->ctx, r->packed, &dataset, &r->err), &r->err);
    for (int i = 0; i < 2; i++)
        assert_ok(stk_loader_create(dataset, &load.options, &loader[i], &r->err), &r->err);
    for (int i = 0; i < 2; i++) {
        assert_ok(stk_loader_next(loader[0], -1, &batch[0], &r->err), &r->err);
        stk_batch_get_state(batch[0], &at);
        stk_batch_release(&batch[0]);
    }
    assert_ok(stk_loader_restore(loader[1], &at, &r->err), &r->err);
    for (int i = 0; i < 2; i++) {
        stk_tensor image[2] = {{.struct_size = sizeof *image}, {.struct_size = sizeof *image}};
        for (int k = 0; k < 2; k++) {
            assert_ok(stk_loader_next(loader[k], -1, &batch[k], &r->err), &r->err);
            assert_int_equal(stk_batch_find(batch[k], "image", &image[k]), STK_OK);
        }
        assert_int_equal(stk_batch_count(batch[0]), stk_batch_count(batch[1]));
        assert_memory_equal(image[0].data, image[1].data, stk_batch_count(batch[0]) * 16 * 16 * 3);
        stk_batch_release(&batch[0]);
        stk_batch_release(&batch[1]);
    }
    stk_loader_destroy(&loader[0]);
    stk_loader_destroy(&loader[1]);
    stk_dataset_close(&dataset);
}

/* ---- Ends ------------------------------------------------------------------------------------ */

static void exit_at(void *user, const char *what, uint64_t done, uint64_t total)
{
    if (total >= TREE_FILES && done >= *(uint64_t *)user && done < total)
        _exit(KILLED);
}

/* Convert in a child that ends, without any clean-up, when so many pictures are done. */
static void kill_after(uint64_t pictures, room *r)
{
    stk_context_options options;
    stk_context *ctx = NULL;
    int status;

    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        stk_context_options_init(&options);
        options.progress = exit_at;
        options.progress_user = &pictures;
        if (stk_context_create(&options, &ctx, &r->err) != STK_OK)
            _exit(1);
        _exit(packed_convert(ctx, &r->run, r->spec, r->target, &r->err) == STK_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == KILLED);
}

/* Two that are broken: one has no header, of the other the pixels end early. */
static void break_some(const room *r)
{
    bytes whole = tree_load(r->from, "cat/base.jpg");

    test_write(r->from, "cat/nothing.jpg", "nothing", 7);
    test_write(r->from, "dog/half.jpg", whole.data, whole.size / 2);
    free(whole.data);
}

/* Killed and run again, by other threads: byte for byte what an undisturbed run writes, and the
 * same pictures are left out. */
static void kill_and_resume(room *r, bool ragged)
{
    char whole[320];

    snprintf(whole, sizeof whole, "%s/whole.zarr", r->to);
    r->run.own.size = ragged ? NULL : "80";
    r->run.own.short_side = ragged ? 80 : 0;
    r->run.options.checkpoint = 1;
    r->run.options.num_workers = 0;
    r->run.options.on_error = 1;
    r->run.options.max_errors = "2";
    break_some(r);
    assert_ok(packed_convert(r->ctx, &r->run, r->spec, whole, &r->err), &r->err);
    for (uint64_t n = 1; n < TREE_FILES - 2; n++) {
        r->run.options.num_workers = (int64_t)(n % 3);
        kill_after(n, r);
        r->run.options.num_workers = (int64_t)((n + 1) % 3);
        assert_ok(pack(r, r->spec), &r->err);
        tree_equal(whole, r->target);
        /* Once more: nothing is left to do. */
        memset(&r->run.report, 0, sizeof r->run.report);
        r->run.report.struct_size = sizeof r->run.report;
        assert_ok(pack(r, r->spec), &r->err);
        assert_int_equal(r->run.report.resumed, TREE_FILES + 2);
        assert_int_equal(r->run.report.skipped, 2);
        /* What an earlier run left out counts for the bound. */
        r->run.options.max_errors = "1";
        assert_fails(pack(r, r->spec), STK_EBADSAMPLES, &r->err, "max_errors allows 1");
        r->run.options.max_errors = "2";
        test_folder_remove(r->target);
    }
}

static void test_kill_and_resume(void **state)
{
    kill_and_resume(*state, false);
}

static void test_kill_and_resume_ragged(void **state)
{
    kill_and_resume(*state, true);
}

/* ---- Broken sources -------------------------------------------------------------------------- */

static void broken_sources(room *r, bool ragged)
{

    r->run.own.size = ragged ? NULL : "24";
    r->run.own.short_side = ragged ? 24 : 0;
    break_some(r);
    assert_fails(pack(r, r->spec), STK_EFORMAT, &r->err, "cat/nothing.jpg");
    assert_int_equal(r->err.sample, 3);
    r->run.options.on_error = 1;
    r->run.options.max_errors = "1";
    assert_fails(pack(r, r->spec), STK_EBADSAMPLES, &r->err, "max_errors allows 1");
    r->run.options.max_errors = "2";
    assert_ok(pack(r, r->spec), &r->err);
    assert_int_equal(r->run.report.total, TREE_FILES + 2);
    assert_int_equal(r->run.report.skipped, 2);
    /* What was left out is no sample, and the others are where they were. */
    assert_int_equal(
        unlink((snprintf(r->packed, sizeof r->packed, "%s/cat/nothing.jpg", r->from), r->packed)),
        0);
    assert_int_equal(
        unlink((snprintf(r->packed, sizeof r->packed, "%s/dog/half.jpg", r->from), r->packed)), 0);
    snprintf(r->packed, sizeof r->packed, "images:%s", r->target);
    const packed_load a = packed_loading(r->spec, "resize(24), center_crop(24)"),
                      b = packed_loading(r->packed, ragged ? "center_crop(24)" : "");
    assert_int_equal(packed_same(r->ctx, &a, &b), 2 * TREE_FILES);
}

static void test_broken(void **state)
{
    broken_sources(*state, false);
}

static void test_broken_ragged(void **state)
{
    broken_sources(*state, true);
}

/* A picture whose sides would be more than max_pixels is broken; one that does not fit the budget
 * is sound, and never left out. */
static void test_limits(void **state)
{
    room *r = *state;

    add_late(r->from);
    r->run.own.short_side = 200;
    r->run.options.max_pixels = 200 * 200;
    assert_fails(pack(r, r->spec), STK_ELIMIT, &r->err,
                 "with this shorter side it has more pixels than max_pixels allows");
    r->run.options.on_error = 1;
    r->run.options.max_errors = "100%";
    r->run.options.memory_budget = 3 << 20;
    for (int i = 0; i < 2; i++) {
        r->run.own.short_side = i ? 20 : 0;
        r->run.own.size = i ? NULL : "20";
        r->run.options.max_pixels = 1 << 26;
        assert_fails(pack(r, r->spec), STK_EBUDGET, &r->err, "raise");
    }
}

/* ---- Refusals -------------------------------------------------------------------------------- */

static void test_refusals(void **state)
{
    room *r = *state;
    static const char *const sizes[] = {"",        "x24",     "24x",   "0x24",
                                        "24x24x3", "24 x 24", "16385", "-1"};

    assert_fails(pack(r, r->spec), STK_EINVAL, &r->err, "differ in size: set packed.size");
    for (size_t i = 1; i < STK_COUNT(sizes); i++) {
        r->run.own.size = sizes[i];
        assert_fails(pack(r, r->spec), STK_EINVAL, &r->err, "is no size; write HEIGHTxWIDTH");
    }
    r->run.own.size = "24";
    r->run.own.short_side = 24;
    assert_fails(pack(r, r->spec), STK_EINVAL, &r->err, "leave one of them out");
    r->run.own.short_side = 0;
    r->run.options.max_errors = "3";
    assert_fails(pack(r, r->spec), STK_EINVAL, &r->err, "on_error");
    r->run.options.max_errors = NULL;
    r->run.options.memory_budget = 4096;
    assert_fails(pack(r, r->spec), STK_EBUDGET, &r->err, "set a smaller packed.shard_size");
    r->run.options.memory_budget = 0;
    r->run.own.size = NULL;
    r->run.own.short_side = 24;
    assert_fails(pack(r, "digits:?size=10"), STK_ENOTSUP, &r->err, "three channels");
    assert_fails(pack(r, "synthetic:?size=10&shape=8"), STK_ENOTSUP, &r->err, "has no field");
    char masked[600];
    snprintf(masked, sizeof masked, "%s&masks=%s", r->spec, r->from);
    assert_fails(pack(r, masked), STK_ENOTSUP, &r->err,
                 "it has masks, for which packed pictures have no array");
    /* Another size is another conversion. */
    r->run.own.short_side = 0;
    r->run.own.size = "24";
    assert_ok(pack(r, r->spec), &r->err);
    for (int i = 0; i < 3; i++) {
        r->run.own.size = i == 2 ? NULL : i ? "24" : "20";
        r->run.own.short_side = i == 2 ? 24 : 0;
        r->run.own.checksum = i != 1;
        assert_fails(pack(r, r->spec), STK_EMISMATCH, &r->err,
                     "as a conversion of other packed pictures (the source, size,");
    }
}

static void test_dry_run(void **state)
{
    room *r = *state;

    r->run.own.size = "24";
    r->run.options.dry_run = true;
    assert_ok(pack(r, r->spec), &r->err);
    assert_true(r->run.report.planned);
    assert_int_equal(r->run.report.total, TREE_FILES);
    assert_int_equal(r->run.report.bytes_after, TREE_FILES * 24 * 24 * 3);
    assert_true(r->run.report.bytes_before > 0 && r->run.report.seconds > 0);
    assert_non_null(strstr(r->run.report.text, "decoding costs now"));
    assert_int_not_equal(access(r->target, F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_size, begin, end),
        cmocka_unit_test_setup_teardown(test_short_side, begin, end),
        cmocka_unit_test_setup_teardown(test_classic, begin, end),
        cmocka_unit_test_setup_teardown(test_one_class, begin, end),
        cmocka_unit_test_setup_teardown(test_goes_on, begin, end),
        cmocka_unit_test_setup_teardown(test_kill_and_resume, begin, end),
        cmocka_unit_test_setup_teardown(test_kill_and_resume_ragged, begin, end),
        cmocka_unit_test_setup_teardown(test_broken, begin, end),
        cmocka_unit_test_setup_teardown(test_broken_ragged, begin, end),
        cmocka_unit_test_setup_teardown(test_limits, begin, end),
        cmocka_unit_test_setup_teardown(test_refusals, begin, end),
        cmocka_unit_test_setup_teardown(test_dry_run, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
