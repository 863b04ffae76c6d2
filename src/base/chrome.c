/* SPDX-License-Identifier: Apache-2.0 */
#include "base/chrome.h"

#include <inttypes.h>

void stk__chrome_begin(stk__text *out, const char *name, const char *category, char phase,
                       stk__chrome_place at)
{
    stk__text_put(out, "{\"name\":", 8);
    stk__text_add_json(out, name);
    stk__text_add(out,
                  ",\"cat\":\"%s\",\"ph\":\"%c\",\"pid\":%" PRIu64 ",\"tid\":%" PRIu32 ",\"ts\":",
                  category, phase, at.process, at.lane);
    stk__text_add_thousandths(out, at.when_ns);
}

void stk__chrome_begin_span(stk__text *out, const char *name, const char *category,
                            stk__chrome_place at, uint64_t end_ns)
{
    stk__chrome_begin(out, name, category, 'X', at);
    stk__text_add(out, ",\"dur\":");
    stk__text_add_thousandths(out, end_ns - at.when_ns);
}

void stk__chrome_batch(stk__text *out, uint64_t epoch, uint64_t step, uint64_t samples)
{
    stk__text_add(out,
                  ",\"args\":{\"epoch\":%" PRIu64 ",\"step\":%" PRIu64 ",\"samples\":%" PRIu64 "}",
                  epoch, step, samples);
}

void stk__chrome_name(stk__text *out, const char *what, stk__chrome_place at, const char *name)
{
    stk__chrome_begin(out, what, "__metadata", 'M', at);
    stk__text_add(out, ",\"args\":{\"name\":");
    stk__text_add_json(out, name);
    stk__text_add(out, "}}");
}
