/* SPDX-License-Identifier: Apache-2.0 */
#include "base/md5.h"

#include "support/support.h"

static void check(const char *text, size_t length, size_t first, const char *wanted)
{
    char sum[STK__MD5_TEXT];
    stk__md5 h;

    stk__md5_init(&h);
    stk__md5_add(&h, text, first);
    stk__md5_add(&h, text + first, length - first);
    stk__md5_text(&h, sum);
    assert_string_equal(sum, wanted);
}

/* RFC 1321, appendix A.5; in one part and in two. */
static void test_vectors(void **state)
{
    static const char *const vectors[][2] = {
        {"", "d41d8cd98f00b204e9800998ecf8427e"},
        {"a", "0cc175b9c0f1b6a831c399e269772661"},
        {"abc", "900150983cd24fb0d6963f7d28e17f72"},
        {"message digest", "f96b697d7cb7938d525a2f31aaf161d0"},
        {"abcdefghijklmnopqrstuvwxyz", "c3fcd3d76192e4007dfb496cca67e13b"},
        {"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
         "d174ab98d277d9f5a5611c2c9f419d9f"},
        {"1234567890123456789012345678901234567890"
         "1234567890123456789012345678901234567890",
         "57edf4a22be3c955ac49da2e2107b67a"},
    };

    for (size_t i = 0; i < STK_COUNT(vectors); i++)
        for (size_t first = 0; first <= strlen(vectors[i][0]); first++)
            check(vectors[i][0], strlen(vectors[i][0]), first, vectors[i][1]);
}

/* Lengths around the blocks, of which the last ones need another for their length: what md5sum
 * says of as many letters a. */
static void test_lengths(void **state)
{
    static const struct {
        size_t length;
        const char *sum;
    } cases[] = {
        {55, "ef1772b6dff9a122358552954ad0df65"},  {56, "3b0c8ac703f828b04c6c197006d17218"},
        {57, "652b906d60af96844ebd21b674f35e93"},  {63, "b06521f39153d618550606be297466d5"},
        {64, "014842d480b571495a4a0363793f7367"},  {65, "c743a45e0d2e6a95cb859adae0248435"},
        {119, "8a7bd0732ed6a28ce75f6dabc90e1613"}, {120, "5f61c0ccad4cac44c75ff505e1f1e537"},
        {128, "e510683b3f5ffe4093d021808bc6ff70"}, {1000, "cabe45dcc9ae5b66ba86600cca6b8ba8"},
    };
    char text[1000];

    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        check(text, cases[i].length, 0, cases[i].sum);
        check(text, cases[i].length, cases[i].length / 3, cases[i].sum);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors),
                                       cmocka_unit_test(test_lengths)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
