/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sha256.h"
#include "support/support.h"

static void check(const void *data, size_t length, size_t piece, const char *expected)
{
    uint8_t digest[STK__SHA256];
    char text[STK__SHA256_TEXT];
    stk__sha256 hash;

    stk__sha256_init(&hash);
    for (size_t at = 0; at < length; at += piece)
        stk__sha256_add(&hash, (const char *)data + at, STK_MIN(piece, length - at));
    stk__sha256_end(&hash, digest);
    stk__sha256_text(digest, text);
    assert_string_equal(text, expected);
}

/* NIST, examples of FIPS 180-4: SHA256.pdf and SHA2_Additional.pdf. */
static void test_sha256(void **state)
{
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static uint8_t zeros[1000];

    check("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check("abc", 3, 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t piece = 1; piece <= 56; piece += 5)
        check(two, 56, piece, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check("\xbd", 1, 1, "68325720aabd7c82f30f554b313d0570c95accbb7dc4b5aae11204c08ffe732b");
    check(zeros, 55, 9, "02779466cdec163811d078815c633f21901413081449002f24aa3e80f0b88ef7");
    check(zeros, 56, 56, "d4817aa5497628e7c77e6b606107042bbba3130888c5f47a375e6179be789fbb");
    check(zeros, 57, 64, "65a16cb7861335d5ace3c60718b5052e44660726da4cd13bb745381b235a1785");
    check(zeros, 64, 63, "f5a5fd42d16a20302798ef6ed309979b43003d2320d9f0e8ea9831a92759fb4b");
    for (size_t piece = 63; piece <= 129; piece++)
        check(zeros, 1000, piece,
              "541b3e9daa09b20bf85fa273e5cbd3e80185aa4ec298e765db87742b70138a53");
}

/* RFC 4231, cases 1, 2 and 6. */
static void test_hmac(void **state)
{
    static const struct {
        const char *key;
        size_t key_length;
        const char *data, *expected;
    } cases[] = {
        {"\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b", 20,
         "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {"Jefe", 4, "what do ya want for nothing?",
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {NULL, 131, "Test Using Larger Than Block-Size Key - Hash Key First",
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    };
    char large[131], text[STK__SHA256_TEXT];
    uint8_t digest[STK__SHA256];

    memset(large, 0xaa, sizeof large);
    for (size_t i = 0; i < STK_COUNT(cases); i++) {
        stk__hmac_sha256(cases[i].key ? cases[i].key : large, cases[i].key_length, cases[i].data,
                         strlen(cases[i].data), digest);
        stk__sha256_text(digest, text);
        assert_string_equal(text, cases[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sha256), cmocka_unit_test(test_hmac)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
