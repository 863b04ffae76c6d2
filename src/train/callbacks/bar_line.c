/* SPDX-License-Identifier: Apache-2.0 */
/* The line of a progress bar, as tqdm draws it:
 * {l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}, {rate_noinv_fmt}{postfix}]. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "train/callbacks/progress_bar.h"

enum { PAD = 5, LEAST_BAR = 4, PLAIN_BAR = 10 };

void stk__bar_number(char *text, size_t size, double value)
{
    size_t length;

    snprintf(text, size, "%.3g", value);
    if (!isfinite(value) || strchr(text, 'e'))
        return;
    length = strlen(text);
    if (!strchr(text, '.') && length < PAD && length + 1 < size) {
        text[length++] = '.';
        text[length] = 0;
    }
    while (length < PAD && length + 1 < size) {
        text[length++] = '0';
        text[length] = 0;
    }
}

static void put_time(char *text, size_t size, double seconds)
{
    const uint64_t s = seconds < 0 || seconds > 1e9 ? 0 : (uint64_t)seconds;

    if (s >= 3600)
        snprintf(text, size, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, size, "%02" PRIu64 ":%02" PRIu64, s / 60, s % 60);
}

/* `cells` columns, of which a share is full: whole blocks U+2588, then one of eighths. */
static void put_bar(char *text, size_t size, int cells, double share)
{
    const int eighths = (int)(share * cells * 8);
    size_t used = 0;

    for (int i = 0; i < cells && used + 4 < size; i++) {
        const int fill = STK_MIN(STK_MAX(eighths - i * 8, 0), 8);
        if (fill == 0) {
            text[used++] = ' ';
            continue;
        }
        text[used++] = (char)0xe2;
        text[used++] = (char)0x96;
        text[used++] = (char)(0x90 - fill);
    }
    text[used] = 0;
}

void stk__bar_line(char *text, size_t size, int width, const char *what, uint64_t done,
                   uint64_t total, double seconds, const char *postfix)
{
    const double share = total ? (double)STK_MIN(done, total) / (double)total : 0;
    const double rate = seconds > 0 ? (double)done / seconds : 0;
    char elapsed[24], left[24] = "?", speed[32] = "?it/s", head[160], tail[700], bar[3 * 512];

    put_time(elapsed, sizeof elapsed, seconds);
    if (rate > 0) {
        put_time(left, sizeof left, (double)(total - STK_MIN(done, total)) / rate);
        snprintf(speed, sizeof speed, "%5.2fit/s", rate);
    }
    snprintf(head, sizeof head, "%.100s: %3.0f%%|", what, floor(100 * share));
    snprintf(tail, sizeof tail, "| %" PRIu64 "/%" PRIu64 " [%s<%s, %s%s%.500s]", done, total,
             elapsed, left, speed, *postfix ? ", " : "", postfix);
    int cells = width > 0 ? width - 1 - (int)strlen(head) - (int)strlen(tail) : PLAIN_BAR;
    cells = STK_MIN(STK_MAX(cells, LEAST_BAR), 500);
    put_bar(bar, sizeof bar, cells, share);
    snprintf(text, size, "%s%s%s", head, bar, tail);
}
