/* SPDX-License-Identifier: Apache-2.0 */
/* The home folder in the place of a tilde, also in each spec of a dataset of datasets. */
#include <string.h>

#include "base/base.h"
#include "support/support.h"

static void test_home_path(void **state)
{
    static const struct {
        const char *text, *made; /* NULL: nothing to be done */
    } cases[] = {
        {"~/a", "/of/me/a"},
        {"~", "/of/me"},
        {"images:~/a?x=~/b", "images:/of/me/a?x=~/b"},
        {"images:/a~/b", NULL},
        {"images:a/~/b", NULL},
        {"~b/c", NULL},
        {"mix:0.5*(images:~/a),0.5*(~/b?root=~/c)",
         "mix:0.5*(images:/of/me/a),0.5*(/of/me/b?root=~/c)"},
        {"concat:(images:~),(mnist:/x/~)", "concat:(images:/of/me),(mnist:/x/~)"},
        {"pair:(mix:(npy:~/a),(npy:/b)),(npy:~/c)",
         "pair:(mix:(npy:/of/me/a),(npy:/b)),(npy:/of/me/c)"},
        {"images:/data (~/a)", NULL},
        {"", NULL},
    };

    (void)state;
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        char out[200] = "as it was", small[12] = "as it was";
        const size_t length = stk_home_path(cases[i].text, "/of/me", out, sizeof out);
        assert_int_equal(stk_home_path(cases[i].text, "/of/me", NULL, 0), length);
        assert_string_equal(out, cases[i].made ? cases[i].made : "as it was");
        assert_int_equal(length, cases[i].made ? strlen(cases[i].made) : 0);
        /* What does not fit is cut. */
        assert_int_equal(stk_home_path(cases[i].text, "/of/me", small, sizeof small), length);
        if (cases[i].made)
            assert_memory_equal(small, cases[i].made, STK_MIN(length, sizeof small - 1));
        assert_non_null(memchr(small, 0, sizeof small));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_home_path)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
