/* SPDX-License-Identifier: Apache-2.0 */
/* Structs whose size the two sides of the interface know in different versions. */
#include "base/sized.h"

static uint32_t size_of(const void *sized)
{
    uint32_t size;

    memcpy(&size, sized, sizeof size);
    return size;
}

void stk__sized_copy(void *out, size_t size, const void *theirs)
{
    const uint32_t own = (uint32_t)size;

    memcpy(out, theirs, STK_MIN((size_t)size_of(theirs), size));
    memcpy(out, &own, sizeof own);
}

stk_status stk__sized_check(const void *theirs, const char *type, stk_stage stage, stk_error *err)
{
    const uint32_t given = size_of(theirs);

    if (given >= sizeof given && given <= STK__SIZED_MOST)
        return STK_OK;
    return stk__fail(err, STK_EINVAL, stage,
                     "a %s has struct_size %u: call its init function, or set it to sizeof(%s)",
                     type, given, type);
}

stk_status stk__sized_read(void *out, size_t size, const void *theirs, const char *type,
                           stk_stage stage, stk_error *err)
{
    const uint32_t given = size_of(theirs);

    STK_TRY(stk__sized_check(theirs, type, stage, err));
    if (given > size && !stk__all_zero((const char *)theirs + size, given - size))
        return stk__fail(err, STK_EINVAL, stage,
                         "a %s was made for a later version of Stoker than %s, and sets what this "
                         "one does not know: update the library",
                         type, stk_version());
    stk__sized_copy(out, size, theirs);
    return STK_OK;
}

void stk__sized_write(void *theirs, const void *ours)
{
    const uint32_t given = size_of(theirs);

    memcpy(theirs, ours, STK_MIN(given, size_of(ours)));
    if (given >= sizeof given)
        memcpy(theirs, &given, sizeof given);
}

const void *stk__sized_at(const void *array, size_t i)
{
    return (const char *)array + i * (array ? size_of(array) : 0);
}
