/* SPDX-License-Identifier: Apache-2.0 */
/* Foreign text on its way to a terminal: nothing of it steers one, wherever it is cut. */
#include "support/support.h"

#include <stdlib.h>
#include <string.h>

#include "../../cli/text.c"

static void check(const char *text, const char *wanted)
{
    char line[256];

    snprintf(line, sizeof line, "%s", text);
    assert_int_equal(cli_text_clean(line), strlen(wanted));
    assert_string_equal(line, wanted);
}

static void test_line(void **state)
{
    (void)state;
    check("plain, µ and 日本 \xf0\x9f\x98\x80", "plain, µ and 日本 \xf0\x9f\x98\x80");
    check("a\033[2Jb\033]0;title\007c", "a?[2Jb?]0;title?c");
    check("C1: \x9b"
          "2J \xc2\x9b"
          "2J \xc2\x85 \x7f",
          "C1: ?2J ?2J ? ?");
    check("line\nreturn\rtab\t", "line?return?tab?");
    check("turned \xe2\x80\xae gpj.exe \xe2\x81\xa6 \xe2\x80\xa8", "turned ? gpj.exe ? ?");
    /* Too long, a surrogate, beyond Unicode, cut. */
    check("\xc0\xaf \xe0\x80\x9b \xed\xa0\x80 \xf4\x90\x80\x80 \xe6\x97", "?? ??? ??? ???? ??");
    check("no-break space \xc2\xa0 stays", "no-break space \xc2\xa0 stays");
    check("", "");
}

/* Columns of a terminal, whatever the locale is. */
static void test_width(void **state)
{
    static const struct {
        const char *text;
        size_t columns;
    } rows[] = {
        {"", 0},
        {"plain", 5},
        {"\xc3\xa9\xc2\xb5", 2},         /* é, µ */
        {"e\xcc\x81", 1},                /* the same of two characters */
        {"\xe6\x97\xa5\xe6\x9c\xac", 4}, /* 日本 */
        {"\xf0\x9f\x98\x80!", 3},        /* an emoji */
        {"\xd7\xa9\xd7\x81", 1},         /* a Hebrew letter with its dot */
        {"\x1b[31m", 5},                 /* "?[31m" */
        {"\xff\xe6\x97", 3},             /* "???" */
        {"\xe2\x80\xae"
         "x",
         2},             /* what turns the direction is "?" */
        {"\xc2\xa0", 1}, /* a space that does not break */
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (cli_text_width(rows[i].text) != rows[i].columns)
            fail_msg("'%s' takes %zu columns, not %zu", rows[i].text, cli_text_width(rows[i].text),
                     rows[i].columns);
}

/* Written in pieces of any size the stream says the same. */
static void test_stream(void **state)
{
    static const char text[] = "x\033[31m\xc2\x9b日本\xf0\x9f\x98\x80\n\tµ\r\xe2\x80\xae \xe6\x97";
    static const char wanted[] = "x?[31m?日本\xf0\x9f\x98\x80\n\tµ?? ?";

    (void)state;
    for (size_t piece = 1; piece <= sizeof text; piece++) {
        char *out = NULL;
        size_t size;
        FILE *to = open_memstream(&out, &size), *stream = cli_text_stream(to);
        assert_non_null(stream);
        assert_ptr_equal(cli_text_below(stream), to);
        assert_ptr_equal(cli_text_below(to), to);
        for (size_t at = 0; at < sizeof text - 1; at += piece) {
            const size_t left = sizeof text - 1 - at;
            fwrite(text + at, 1, left < piece ? left : piece, stream);
            assert_int_equal(fflush(stream), 0);
        }
        assert_int_equal(fclose(stream), 0);
        assert_int_equal(fclose(to), 0);
        assert_string_equal(out, wanted);
        free(out);
    }
}

/* What could not be written is an error of the stream. */
static void test_full(void **state)
{
    FILE *to = fopen("/dev/full", "w");

    (void)state;
    assert_non_null(to);
    FILE *stream = cli_text_stream(to);
    assert_non_null(stream);
    fputs("text", stream);
    assert_int_not_equal(fflush(stream), 0);
    fclose(stream);
    fclose(to);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line),
        cmocka_unit_test(test_width),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_full),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
