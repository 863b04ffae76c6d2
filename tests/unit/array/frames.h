/* Frames of libhdf5's process that a test puts together. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_TESTS_UNIT_ARRAY_FRAMES_H
#define STK_TESTS_UNIT_ARRAY_FRAMES_H

#include "array/libhdf5/wire.h"

static unsigned char frames[1 << 16];
static stk__wire_out script; /* all frames that one end says */

static bool no_growth(stk__wire_out *out, size_t more)
{
    (void)out, (void)more;
    return false;
}

/* The compiler does not see which, and that what does not fit is not put. */
static bool (*volatile growth)(stk__wire_out *, size_t) = no_growth;

static stk__wire_out fresh(unsigned char *bytes, size_t room)
{
    return (stk__wire_out){.bytes = bytes, .room = room, .grow = growth};
}

static void say(uint32_t kind, const stk__wire_out *payload)
{
    stk__wire_put_u32(&script, kind);
    stk__wire_put_u32(&script, payload ? (uint32_t)payload->length : 0);
    if (payload)
        stk__wire_put(&script, payload->bytes, payload->length);
}

static void begin_script(void)
{
    script = fresh(frames, sizeof frames);
}

#endif
