/* SPDX-License-Identifier: Apache-2.0 */
/* The n-th allocation fails while datasets of datasets are opened, and views of them: what fails
 * says so, nothing is left, and what does not fail is the same. */
#include "torture/dataset/opening.h"

#define ONE "(digits:?size=20)"
#define TWO "(digits:?size=30&seed=4)"

static char folder[256];

static void each_allocation_fails(void **state)
{
    static const char *const specs[] = {
        "mix:0.7*" ONE ",0.3*" TWO "?stop=all",
        "concat:" ONE "," TWO "?classes=unite",
        "pair:" ONE ",(digits:?size=20&seed=4)?prefixes=x,y",
        "pair:" ONE ",(digits:?size=20&seed=4)?by=label&duplicates=first&missing=drop",
        "mix:" ONE ",(concat:" TWO "," ONE ")?keep=label&rename=label:y&cast=y:float32",
        "digits:?size=40&kfold=4&fold=1&part=train&repeat=2",
        "digits:?size=40&stages=0:0.5,3:1",
        "digits:?size=40&balance=label",
    };
    char spec[600];

    (void)state;
    for (size_t i = 0; i < STK_COUNT(specs); i++)
        torture(specs[i]);
    snprintf(spec, sizeof spec, "digits:?size=3&balance=%s/labels&class_names=%s/names", folder,
             folder);
    torture(spec);
    snprintf(spec, sizeof spec, "digits:?size=3&weights=%s/weights.npy", folder);
    torture(spec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_allocation_fails)};
    static const double weights[3] = {1, 2, 1};
    char file[128 + sizeof weights];
    static const char head[] = "{'descr': '<f8', 'fortran_order': False, 'shape': (3,), }";

    test_folder(folder);
    test_write(folder, "labels", "0\n1\n1\n", 6);
    test_write(folder, "names", "a\nb\n", 4);
    memset(file, ' ', 128);
    memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
    memcpy(file + 10, head, sizeof head - 1);
    file[127] = '\n';
    memcpy(file + 128, weights, sizeof weights);
    test_write(folder, "weights.npy", file, sizeof file);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    test_folder_remove(folder);
    return failed;
}
