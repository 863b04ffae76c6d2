/* SPDX-License-Identifier: Apache-2.0 */
/* The option where of tables, on rows of numbers, texts and nulls. Input: the expression. */
#include "dataset/table/where.h"
#include "rows_support.h"

#define TEXT_MOST 4096u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const void *cell(void *user, uint32_t column, uint64_t row, uint64_t *size)
{
    static const int64_t numbers[] = {0, 3, INT64_MIN};

    (void)user;
    *size = sizeof *numbers;
    return (row + column) % 4 == 3 ? NULL : &numbers[(row + column) % 4];
}

static bool bounds(void *user, uint32_t column, stk__table_bound *least, stk__table_bound *most)
{
    (void)user;
    *least = (stk__table_bound){.integer = INT64_MIN};
    *most = (stk__table_bound){.integer = 3};
    return column % 2;
}

/* Numbers in every column; what holds in a row may hold within the bounds. */
static void evaluate(const stk__where *w)
{
    const stk__table_column number = {
        .name = "n", .kind = STK__COLUMN_VALUES, .dtype = STK_INT64, .width = 1};
    const stk__table_column **columns = malloc((w->num_columns + 1) * sizeof *columns);
    stk_error err;

    FUZZ_CHECK(columns && w->num_columns);
    for (uint32_t i = 0; i < w->num_columns; i++)
        columns[i] = &number;
    if (stk__where_check(w, columns, &err) == STK_OK) {
        const bool may = stk__where_may_hold(w, bounds, NULL);
        for (uint64_t row = 0; row < 4; row++)
            FUZZ_CHECK(!stk__where_holds(w, columns, cell, NULL, row) || may);
    }
    free((void *)columns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    stk_context *ctx = fuzz_context();
    char text[TEXT_MOST + 1];
    stk__where where;
    stk_error err;

    stk_error_init(&err);
    memcpy(text, data, size < TEXT_MOST ? size : TEXT_MOST);
    text[size < TEXT_MOST ? size : TEXT_MOST] = 0;
    if (stk__where_parse(ctx, text, &where, &err) == STK_OK)
        evaluate(&where);
    else
        FUZZ_CHECK(err.text[0]);
    stk__where_release(&where);
    stk_context_destroy(&ctx);
    return 0;
}
