/* SPDX-License-Identifier: Apache-2.0 */
/* The summary of a model whose layers are parts of parts. */
#include "unit/train/said.h"

static const stk_layer layers[] = {{"stem", "Conv", 10, 10, 100, true, 1, 0, {0}},
                                   {"body.0.conv", "Conv", 20, 20, 200, true, 1, 0, {0}},
                                   {"body.0.norm", "Norm", 2, 2, 0, false, 1, 0, {0}},
                                   {"body.1", "Conv", 30, 30, 300, true, 1, 0, {0}},
                                   {"body2.0", "Conv", 4, 4, 40, true, 1, 0, {0}},
                                   {"body2.1", "Conv", 5, 5, 50, true, 1, 0, {0}},
                                   {"body", "Norm", 6, 6, 0, true, 1, 0, {0}},
                                   {"head", "Linear", 70, 70, 700, true, 1, 0, {0}},
                                   {"head.inner", "Linear", 70, 70, 700, true, 2, 0, {0}}};

static bool layer_at(const stk_module *module, size_t i, stk_layer *out)
{
    if (i < STK_COUNT(layers))
        *out = layers[i];
    return i < STK_COUNT(layers);
}

/* The same, each with as many outputs as its number says. */
static bool shaped_layer_at(const stk_module *module, size_t i, stk_layer *out)
{
    if (!layer_at(module, i, out))
        return false;
    out->rank = 1;
    out->shape[0] = (int64_t)i;
    return true;
}

/* Lines of the table, without blanks: "name|type|params|mode|flops ...". */
static void table_of(bool shaped, const char *max_depth, char *out, size_t size)
{
    bench b;
    tiny m;
    stk_trainer *t;
    size_t used = 0;
    int rules = 0;

    bench_open(&b);
    tiny_init(&m);
    m.ops.layer = shaped ? shaped_layer_at : layer_at;
    b.options.max_epochs = 0;
    b.options.enable_model_summary = STK_SWITCH_TRUE;
    assert_ok(stk_trainer_create(b.ctx, &b.options, &t, &b.err), &b.err);
    listen_to(t);
    add(&b, t, &stk__callback_model_summary, "max_depth", max_depth, NULL);
    assert_ok(stk_trainer_fit(t, &m.base, &b.data, NULL, &b.err), &b.err);
    assert_int_equal(m.train_steps, 0);
    *out = 0;
    for (char *line = strtok(said, "\n"); line; line = strtok(NULL, "\n")) {
        rules += strncmp(line, "---", 3) == 0;
        if (rules != 1 || *line == '-')
            continue;
        for (const char *c = strchr(line, '|') + 1; *c && used + 2 < size; c++)
            if (*c != ' ')
                out[used++] = *c;
        out[used++] = ' ';
        out[used] = 0;
    }
    stk_trainer_destroy(&t);
    bench_close(&b);
}

static void parts(void **state)
{
    char table[2048];

    table_of(false, "1", table, sizeof table);
    assert_string_equal(table, "stem|Conv|10|train|100 body|3layers|52|mixed|500 "
                               "body2|2layers|9|train|90 body|Norm|6|train|0 "
                               "head|Linear|70|train|700 ");
    table_of(false, "2", table, sizeof table);
    assert_string_equal(table, "stem|Conv|10|train|100 body|3layers|52|mixed|500 "
                               "body.0|2layers|22|mixed|200 body.1|Conv|30|train|300 "
                               "body2|2layers|9|train|90 body2.0|Conv|4|train|40 "
                               "body2.1|Conv|5|train|50 body|Norm|6|train|0 "
                               "head|Linear|70|train|700 head.inner|Linear|70|train|700 ");
    table_of(false, "-1", table, sizeof table);
    assert_non_null(strstr(table, "body.0|2layers|22|mixed|200 body.0.conv|Conv|20|train|200 "
                                  "body.0.norm|Norm|2|eval|0 body.1|Conv"));
    table_of(false, "0", table, sizeof table);
    assert_string_equal(table, "");
}

/* A part gives what its last layer does. */
static void shapes(void **state)
{
    char table[2048];

    table_of(true, "1", table, sizeof table);
    assert_string_equal(table, "stem|Conv|10|train|100|[N,0] body|3layers|52|mixed|500|[N,3] "
                               "body2|2layers|9|train|90|[N,5] body|Norm|6|train|0|[N,6] "
                               "head|Linear|70|train|700|[N,7] ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(parts), cmocka_unit_test(shapes)};

    return cmocka_run_group_tests_name("train/model_summary", tests, NULL, NULL);
}
