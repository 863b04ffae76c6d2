/* SPDX-License-Identifier: Apache-2.0 */
/* Opening images: while the n-th allocation fails, for every n until all succeed. */
#include "torture/dataset/opening.h"

static void write_tree(const char *folder, const char *extension)
{
    char name[64];

    for (int i = 0; i < 90; i++) {
        snprintf(name, sizeof name, "class-%d/%s%03d.%s", i % 30, i % 7 ? "" : "in/", i, extension);
        test_write(folder, name, name, 10);
    }
}

static void test_tree(void **state)
{
    char folder[256], spec[400];

    test_folder(folder);
    write_tree(folder, "jpg");
    snprintf(spec, sizeof spec, "images:%s?index=none", folder);
    torture(spec);
    /* Written the first time, read afterwards. */
    snprintf(spec, sizeof spec, "images:%s", folder);
    torture(spec);
    snprintf(spec, sizeof spec, "images:slow+file://%s", folder);
    torture(spec);
    test_folder_remove(folder);
}

/* No index is ever there: its folder refuses it. */
static void test_index_that_is_refused(void **state)
{
    char folder[256], spec[400];

    test_folder(folder);
    write_tree(folder, "png");
    snprintf(spec, sizeof spec, "images:%s?index=/proc/stoker-index", folder);
    torture(spec);
    test_folder_remove(folder);
}

static void test_pairs(void **state)
{
    char folder[256], masks[256], spec[800];

    test_folder(folder);
    test_folder(masks);
    write_tree(folder, "jpg");
    write_tree(masks, "png");
    snprintf(spec, sizeof spec, "images:%s?index=none&masks=%s", folder, masks);
    torture(spec);
    snprintf(spec, sizeof spec, "images:%s?masks=%s&index=%s/index", folder, masks, masks);
    torture(spec);
    test_folder_remove(masks);
    test_folder_remove(folder);
}

static void test_lists(void **state)
{
    char folder[256], spec[800], text[4096] = "";
    size_t used = 0;

    test_folder(folder);
    write_tree(folder, "jpg");
    for (int i = 0; i < 90; i++)
        if (i % 7)
            used += (size_t)snprintf(text + used, sizeof text - used, "class-%d/%03d.jpg,%d\n",
                                     i % 30, i, i % 4);
    test_write(folder, "numbers.csv", text, used);
    for (char *p = text; (p = strchr(p, ',')); p++)
        p[1] = (char)(p[1] - '0' + 'p');
    test_write(folder, "names.csv", text, used);
    snprintf(spec, sizeof spec, "images:%s/numbers.csv", folder);
    torture(spec);
    snprintf(spec, sizeof spec, "images:%s/names.csv?root=%s", folder, folder);
    torture(spec);
    test_folder_remove(folder);
}

/* Classes by name, several classes each, and numbers; the table is opened twice. */
static void test_tables(void **state)
{
    static const char *const queries[] = {"label_columns=name",
                                          "label_columns=marks&label_separator=space",
                                          "label_columns=a,b&missing=drop"};
    char folder[256], spec[800], text[8192] = "image,name,marks,a,b\n";
    size_t used = strlen(text);

    test_folder(folder);
    write_tree(folder, "jpg");
    for (int i = 0; i < 90; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%03d,class %d,m%d n%d,%d,%d.5\n",
                                 i, i % 4, i % 3, i % 5, i, i);
    test_write(folder, "labels.csv", text, used);
    for (size_t i = 0; i < STK_COUNT(queries); i++) {
        snprintf(spec, sizeof spec, "images:%s?index=none&labels=labels.csv&%s", folder,
                 queries[i]);
        torture(spec);
    }
    test_folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),   cmocka_unit_test(test_index_that_is_refused),
        cmocka_unit_test(test_pairs),  cmocka_unit_test(test_lists),
        cmocka_unit_test(test_tables),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
