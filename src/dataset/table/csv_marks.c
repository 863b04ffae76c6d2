/* SPDX-License-Identifier: Apache-2.0 */
#include "dataset/table/csv_marks.h"

void stk__csv_marks_c(const char *bytes, char delimiter, stk__csv_marks *out)
{
    *out = (stk__csv_marks){0};
    for (unsigned i = 0; i < STK__CSV_MARKED; i++) {
        const char c = bytes[i];
        out->lines |= (uint64_t)(c == '\n') << i;
        out->ends |= (uint64_t)(c == '\n' || c == delimiter) << i;
        out->others |= (uint64_t)(c == '"' || c == '\r') << i;
    }
}

stk__csv_plain stk__csv_plain_lines(stk__csv_marks_fn *marks, const char *at, const char *end,
                                    char delimiter, uint32_t cells, uint64_t most)
{
    stk__csv_plain all = {0};
    const char *line = at, *cell = at;
    uint32_t n = 0, longest = 0; /* of the line at hand */

    for (const char *block = at; end - block >= STK__CSV_MARKED; block += STK__CSV_MARKED) {
        stk__csv_marks m;
        marks(block, delimiter, &m);
        /* Of what comes before the first that is to be looked at. */
        const uint64_t before = m.others ? (m.others & -m.others) - 1 : UINT64_MAX;
        for (uint64_t ends = m.ends & before; ends; ends &= ends - 1) {
            const unsigned i = (unsigned)__builtin_ctzll(ends);
            longest = STK_MAX(longest, (uint32_t)(block + i - cell));
            cell = block + i + 1;
            n++;
            if (!(m.lines >> i & 1))
                continue;
            if (n != cells || cell == line + 1)
                return all;
            all.rows++;
            all.longest = STK_MAX(all.longest, longest);
            all.bytes = (uint64_t)(cell - at);
            if (all.bytes >= most)
                return all;
            line = cell;
            n = longest = 0;
        }
        if (m.others)
            return all;
    }
    return all;
}
