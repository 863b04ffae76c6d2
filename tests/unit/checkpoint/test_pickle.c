/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles that torch.save never writes: refused within limits, and never run. */
#include <stdlib.h>
#include <string.h>

#include "checkpoint/pth/pth.h"
#include "support/support.h"

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

#define STORAGE                                                                                    \
    "(U\7storagectorch\nFloatStorage\nU\1"                                                         \
    "0U\3cpuK\6tQ"
#define TENSOR(sizes, steps)                                                                       \
    "ctorch._utils\n_rebuild_tensor_v2\n(" STORAGE "K\0" sizes steps "\x89"                        \
    "ccollections\nOrderedDict\n)RtR"
#define GOOD TENSOR("K\2K\3\x86", "K\3K\1\x86")

static const struct {
    const char *bytes;
    size_t length;
    stk_status status;
    const char *part;
} cases[] = {
#define CASE(bytes, status, part)                                                                  \
    {                                                                                              \
        bytes, sizeof bytes - 1, status, part                                                      \
    }
    CASE("\x80\2}U\1a" GOOD "s.", STK_OK, NULL),
    CASE("\x80\2}(U\1a" GOOD "U\1b" GOOD "u.", STK_OK, NULL),
    CASE("\x80\2}U\5modelN"
         "sU\1a" GOOD "s.",
         STK_EKIND, "has 'model' among its weights"),
    CASE("\x80\2}(U\1a" GOOD "U\1a" GOOD "u.", STK_EFORMAT, "has two tensors 'a'"),
    CASE("\x80\2}U\0" GOOD "s.", STK_EKIND, "has '' among its weights"),
    CASE("\x80\2}U\3a\0b" GOOD "s.", STK_EFORMAT, "whose name 'a?b' is no text"),
    CASE("\x80\2}U\2\xc3(" GOOD "s.", STK_EFORMAT, "whose name '?(' is no text"),
    CASE("\x80\2}K\1" GOOD "s.", STK_EKIND, "has '' among its weights"),
    CASE("\x80\2}U\1aU\1bs.", STK_EKIND, "has 'a' among its weights"),
    /* Names, and ways to them. */
    CASE("\x80\2cos\nsystem\nU\4true\x85R.", STK_EKIND, "it names 'os.system'"),
    CASE("\x80\2ctorch._utils\n_rebuild_tensor\n.", STK_EKIND, "it names"),
    CASE("\x80\2ctorch\n_utils._rebuild_tensor_v2\n.", STK_EKIND, "it names"),
    CASE("\x80\2c\n\n.", STK_EKIND, "it names '.'"),
    CASE("\x80\2co\x1bs\nsystem\n.", STK_EKIND, "it names 'o?s.system'"),
    CASE("\x80\2ios\nsystem\n.", STK_EKIND, "opcode 0x69"),             /* INST */
    CASE("\x80\2U\2osU\6system\x93.", STK_EKIND, "opcode 0x93"),        /* STACK_GLOBAL */
    CASE("\x80\2(ccollections\nOrderedDict\no.", STK_EKIND, "0x6f"),    /* OBJ */
    CASE("\x80\2ccollections\nOrderedDict\n)\x81.", STK_EKIND, "0x81"), /* NEWOBJ */
    CASE("\x80\2\x82\1.", STK_EKIND, "opcode 0x82"),                    /* EXT1 */
    CASE("\x80\2P0\n.", STK_EKIND, "opcode 0x50"),                      /* PERSID */
    CASE("\x80\5}.", STK_EKIND, "protocol 5"),
    /* Calls of what is known with what is not theirs. */
    CASE("\x80\2ctorch\nFloatStorage\n)R.", STK_EFORMAT, "a tensor of it is none"),
    CASE("\x80\2ccollections\nOrderedDict\nK\1\x85R.", STK_EFORMAT, "a tensor of it is none"),
    CASE("\x80\2ccollections\nOrderedDict\nNR.", STK_EFORMAT, "a tensor of it is none"),
    CASE("\x80\2NNR.", STK_EFORMAT, "a tensor of it is none"),
    CASE("\x80\2ctorch._utils\n_rebuild_parameter\nN\x85R.", STK_EFORMAT, "a tensor of it"),
    CASE("\x80\2}U\1actorch._utils\n_rebuild_tensor_v2\n)Rs.", STK_EFORMAT, "a tensor of it"),
    CASE("\x80\2}U\1actorch._utils\n_rebuild_tensor_v3\n(" STORAGE "K\0)))))tRs.", STK_EFORMAT,
         "a tensor of"),
    CASE("\x80\2}U\1a" TENSOR("K\2K\3\x86", "K\1\x85") "s.", STK_EFORMAT, "a tensor of it"),
    CASE("\x80\2}U\1a" TENSOR("J\xff\xff\xff\xff\x85", "K\1\x85") "s.", STK_EFORMAT, "a tensor of"),
    CASE("\x80\2}U\1a" TENSOR("U\1x\x85", "K\1\x85") "s.", STK_EFORMAT, "a tensor of it"),
    CASE("\x80\2NQ.", STK_EFORMAT, "a tensor of it is none"),
    CASE("\x80\2(U\5otherctorch\nFloatStorage\nU\1"
         "0U\3cpuK\6tQ.",
         STK_EFORMAT, "a tensor of it"),
    CASE("\x80\2(U\7storageccollections\nOrderedDict\nU\1"
         "0U\3cpuK\6tQ.",
         STK_EFORMAT, "a tensor"),
    /* The stack, the marks, the memo, the end. */
    CASE("", STK_EFORMAT, "has no end"),
    CASE("\x80\2", STK_EFORMAT, "has no end"),
    CASE("\x80\2.", STK_EFORMAT, "ends with more than one object"),
    CASE("\x80\2NN.", STK_EFORMAT, "ends with more than one object"),
    CASE("\x80\2N..", STK_EFORMAT, "ends with more than one object"),
    CASE("\x80\2(N.", STK_EFORMAT, "ends with more than one object"),
    CASE("\x80\2t.", STK_EFORMAT, "ends what has not begun"),
    CASE("\x80\2N\x86.", STK_EFORMAT, "takes what is not there"),
    CASE("\x80\2N(\x85.", STK_EFORMAT, "takes what is not there"),
    CASE("\x80\2](NNu.", STK_EFORMAT, "adds to what does not grow"),
    CASE("\x80\2}(Nu.", STK_EFORMAT, "has a key without a value"),
    CASE("\x80\2}Na.", STK_EFORMAT, "adds to what does not grow"),
    CASE("\x80\2NNb.", STK_EFORMAT, "adds to what does not grow"),
    CASE("\x80\2Na.", STK_EFORMAT, "adds to what does not grow"),
    CASE("\x80\2h\0.", STK_EFORMAT, "takes what is not there"),
    CASE("\x80\2q\0.", STK_EFORMAT, "takes what is not there"),
    CASE("\x80\2Nr\xff\xff\xff\xff.", STK_ELIMIT, "more than 4194304 objects"),
    CASE("\x80\2X\xff\xff\xff\xff"
         "a.",
         STK_EFORMAT, "ends within an object"),
    CASE("\x80\2\x8a\xff"
         "a.",
         STK_EFORMAT, "ends within an object"),
    CASE("\x80\2ctorch", STK_EFORMAT, "has a name without an end"),
    /* A list in itself is walked by nothing. */
    CASE("\x80\2]q\0h\0a.", STK_EKIND, "is no dictionary of tensors"),
    CASE("\x80\2}q\0U\12state_dicth\0s.", STK_EKIND, "has 'state_dict' among its weights"),
#undef CASE
};

static void test_cases(void **state)
{
    stk__pth_tensors t;

    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        const stk_status status = stk__pth_pickle_parse(ctx, (const uint8_t *)cases[i].bytes,
                                                        cases[i].length, "x.pth", &t, &err);
        if (status != cases[i].status || (cases[i].part && !strstr(err.text, cases[i].part)))
            fail_msg("case %zu: %s: %s", i, stk_status_name(status), err.text);
        if (status == STK_OK) {
            assert_true(t.count >= 1 && t.all[0].rank == 2 && t.all[0].shape[1] == 3);
            assert_int_equal(t.all[0].storage_bytes, 24);
        } else {
            assert_true(t.count == 0 && t.all == NULL);
        }
        stk__free(ctx, t.all);
    }
}

/* One opcode again and again comes to a limit, or to an end. */
static void test_limits(void **state)
{
    static const struct {
        const char *opcodes;
        stk_status status;
    } floods[] = {{"N", STK_ELIMIT},    {"(", STK_ELIMIT},    {"]", STK_ELIMIT},
                  {"Nh\0", STK_ELIMIT}, {"\x85", STK_ELIMIT}, {"]a", STK_ELIMIT},
                  {"}Nb", STK_ELIMIT}};
    const size_t length = 16u << 20;
    stk__pth_tensors t;

    uint8_t *bytes = malloc(length);
    assert_non_null(bytes);
    for (size_t i = 0; i < STK_COUNT(floods); i++) {
        const size_t n = strlen(floods[i].opcodes) + (i == 3);
        memcpy(bytes, "\x80\2]]q\0", 6);
        for (size_t k = 6; k < length; k++)
            bytes[k] = (uint8_t)floods[i].opcodes[(k - 6) % n];
        const uint64_t before = stk__memory_left(ctx);
        const stk_status status = stk__pth_pickle_parse(ctx, bytes, length, "x.pth", &t, &err);
        if (status != floods[i].status)
            fail_msg("flood %zu: %s: %s", i, stk_status_name(status), err.text);
        assert_int_equal(stk__memory_left(ctx), before);
    }
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases), cmocka_unit_test(test_limits)};

    return cmocka_run_group_tests(tests, setup, teardown);
}
