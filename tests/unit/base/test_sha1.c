/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-1 against the examples of RFC 3174, and in pieces of every length. */
#include "base/sha1.h"
#include "support/support.h"

static void assert_sha1(const char *bytes, size_t length, size_t piece, const char *wanted)
{
    char text[STK__SHA1_TEXT];
    stk__sha1 hash;

    stk__sha1_init(&hash);
    for (size_t i = 0; i < length; i += piece)
        stk__sha1_add(&hash, bytes + i, STK_MIN(piece, length - i));
    stk__sha1_text(&hash, text);
    assert_string_equal(text, wanted);
}

static void examples(void **state)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static char as[1000000];

    memset(as, 'a', sizeof as);
    assert_sha1("", 0, 1, "da39a3ee5e6b4b0d3255bfef95601890afd80709");
    assert_sha1("abc", 3, 3, "a9993e364706816aba3e25717850c26c9cd0d89d");
    for (size_t piece = 1; piece <= sizeof two; piece++)
        assert_sha1(two, sizeof two - 1, piece, "84983e441c3bd26ebaae4aa1f95129e5e54670f1");
    assert_sha1(as, sizeof as, 4099, "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(examples)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
