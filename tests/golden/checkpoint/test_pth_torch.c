/* SPDX-License-Identifier: Apache-2.0 */
/* Files of torch.save (scripts/make_pth_golden.py) against what torch.load gives for them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "checkpoint/weights/weights.h"
#include "support/faults.h"
#include "support/support.h"
#include "support/text.h"

#define GOLDEN TESTS_DIR "/golden/pth/"

static stk_context *ctx;
static stk_error err;

static int setup(void **state)
{
    ctx = test_context();
    return 0;
}

static int teardown(void **state)
{
    stk_context_destroy(&ctx);
    return 0;
}

static const stk_state_tensor *find(const stk__weights *w, const char *name)
{
    for (size_t i = 0; i < w->num_tensors; i++)
        if (strcmp(w->tensors[i].name, name) == 0)
            return &w->tensors[i];
    fail_msg("there is no '%s'", name);
    return NULL;
}

/* Our reading of torch's file, and the tensors that torch loads from it. */
static void assert_same(const stk__weights *ours, const stk__weights *theirs)
{
    assert_int_equal(ours->num_tensors, theirs->num_tensors);
    for (size_t i = 0; i < ours->num_tensors; i++) {
        const stk_state_tensor *a = &ours->tensors[i], *b = find(theirs, a->name);
        assert_int_equal(a->dtype, b->dtype);
        assert_int_equal(a->rank, b->rank);
        assert_memory_equal(a->shape, b->shape, sizeof a->shape);
        assert_int_equal(a->bytes, b->bytes);
        assert_true((uintptr_t)a->data % stk_dtype_size(a->dtype) == 0);
        assert_memory_equal(a->data, b->data, a->bytes);
    }
}

static void check_file(const char *name)
{
    char path[512];
    stk__weights ours, theirs;

    snprintf(path, sizeof path, GOLDEN "%s.pth", name);
    assert_ok(stk__weights_load(ctx, path, NULL, &ours, &err), &err);
    assert_ptr_equal(ours.tensors, ours.pth.tensors);
    snprintf(path, sizeof path, GOLDEN "%s.safetensors", name);
    assert_ok(stk__weights_load(ctx, path, NULL, &theirs, &err), &err);
    assert_null(theirs.pth.tensors);
    assert_same(&ours, &theirs);
    stk__weights_release(&ours);
    stk__weights_release(&theirs);
}

static void test_types(void **state)
{
    check_file("types");
    check_file("protocol3");
    check_file("empty");
}

static void test_strided(void **state)
{
    check_file("strided");
}

static void test_state_dicts(void **state)
{
    check_file("model");
    check_file("checkpoint");
    check_file("attribute");
}

static const struct {
    const char *name;
    stk_status status;
    const char *part;
} bad[] = {
    {"code", STK_EKIND, "it names 'posix.system', which is neither looked up nor run"},
    {"module", STK_EKIND, "it names 'torch.nn.modules.linear.Linear'"},
    {"sparse", STK_EKIND, "it names 'torch._utils._rebuild_sparse_tensor'"},
    {"float8", STK_EKIND, "it names 'torch.float8_e4m3fn'"},
    {"number", STK_EKIND, "has 'steps' among its weights, which is no tensor"},
    {"list", STK_EKIND, "is no dictionary of tensors; save the weights alone"},
    {"old", STK_EKIND, "before torch 1.6"},
    {"rank9", STK_EKIND, "has a tensor of 9 dimensions; 8 are the most"},
    {"protocol4", STK_EKIND, "is a pickle of protocol 4"},
    {"deflated", STK_EKIND, "compressed or encrypted entries"},
    {"big_endian", STK_EKIND, "big-endian machine"},
    {"other_zip", STK_EKIND, "it has no data.pkl"},
    {"lost", STK_EFORMAT, "the tensor 'a' has no bytes"},
    {"short", STK_EFORMAT, "the tensor 'a' goes beyond the bytes of its storage"},
    {"wraps", STK_EFORMAT, "has more elements than any file"},
    {"conj", STK_EKIND, "has the tensor 'a' conjugated or negated"},
    {"neg", STK_EKIND, "has the tensor 'a' conjugated or negated"},
    {"damaged", STK_ECHECKSUM, "the entry 'damaged/data/1' is not what was written"},
    {"cut", STK_ETRUNCATED, "is cut off"},
    {"expanded", STK_EBUDGET, "4398046511108 bytes for its tensors"},
};

static void test_bad(void **state)
{
    char path[512];
    stk__weights w;

    for (size_t i = 0; i < STK_COUNT(bad); i++) {
        snprintf(path, sizeof path, GOLDEN "bad/%s.pth", bad[i].name);
        assert_fails(stk__weights_load(ctx, path, NULL, &w, &err), bad[i].status, &err,
                     bad[i].part);
        assert_true(w.num_tensors == 0 && w.tensors == NULL);
    }
}

/* Each file cut at each byte, and each of its bytes changed: refused, or the same tensors. */
static void test_damage(void **state)
{
    size_t size;
    char path[64];
    stk__weights w, right;

    assert_ok(stk__weights_load(ctx, GOLDEN "strided.safetensors", NULL, &right, &err), &err);
    uint8_t *whole = test_load(GOLDEN "strided.pth", &size);
    const int fd = memfd_create("pth", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(ftruncate(fd, (off_t)i), 0);
        assert_int_equal(pwrite(fd, whole, i, 0), i);
        assert_true(stk__weights_load(ctx, path, NULL, &w, &err) < 0);
    }
    assert_int_equal(pwrite(fd, whole, size, 0), size);
    for (size_t i = 0; i < size; i++) {
        const uint8_t other = whole[i] ^ 0x41;
        assert_int_equal(pwrite(fd, &other, 1, (off_t)i), 1);
        if (stk__weights_load(ctx, path, NULL, &w, &err) == STK_OK)
            assert_same(&w, &right);
        stk__weights_release(&w);
        assert_int_equal(pwrite(fd, &whole[i], 1, (off_t)i), 1);
    }
    stk__weights_release(&right);
    close(fd);
    free(whole);
}

static void note_tensor(void *user, const char *name, const char *value)
{
    if (strcmp(name, "a") == 0)
        snprintf(user, 64, "%s", value);
}

/* A file is described without its tensors in memory, and every byte of them is read. */
static void test_described(void **state)
{
    char shape[64] = "";

    assert_ok(stk_checkpoint_describe(ctx, GOLDEN "bad/expanded.pth", note_tensor, shape, &err),
              &err);
    assert_string_equal(shape, "float32 [1048576, 1048576]");
    assert_fails(stk_checkpoint_describe(ctx, GOLDEN "bad/damaged.pth", note_tensor, shape, &err),
                 STK_ECHECKSUM, &err, "the entry 'damaged/data/1' is not what was written");
}

/* The n-th allocation fails: said so, and nothing is left behind. */
static void test_no_memory(void **state)
{
    faults f = {.left = FAULTS_NONE};
    stk_context_options o;
    stk_context *poor;
    stk__weights w;

    stk_context_options_init(&o);
    o.allocator = (stk_allocator){.alloc = faulty_alloc, .free = faulty_free, .user = &f};
    assert_int_equal(stk_context_create(&o, &poor, &err), STK_OK);
    for (int64_t n = 0;; n++) {
        const int64_t held = f.held;
        f.left = n;
        const stk_status status = stk__weights_load(poor, GOLDEN "strided.pth", NULL, &w, &err);
        f.left = FAULTS_NONE;
        if (status == STK_OK) {
            assert_true(n > 10);
            stk__weights_release(&w);
            assert_int_equal(f.held, held);
            break;
        }
        assert_int_equal(status, STK_ENOMEM);
        assert_int_equal(f.held, held);
    }
    stk_context_destroy(&poor);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),       cmocka_unit_test(test_strided),
        cmocka_unit_test(test_state_dicts), cmocka_unit_test(test_bad),
        cmocka_unit_test(test_damage),      cmocka_unit_test(test_described),
        cmocka_unit_test(test_no_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
