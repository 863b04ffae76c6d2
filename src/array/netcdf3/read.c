/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The header of an object. How long it is nobody says: as many bytes are read as most headers have,
 * and twice as many each time that it goes on behind them.
 */
#include "array/netcdf3/netcdf3.h"

#define FIRST_READ (UINT64_C(64) << 10)

stk_status stk__netcdf3_read(stk_store *store, const char *key, stk__netcdf3_header *out,
                             stk_error *err)
{
    stk_context *ctx = store->context;
    stk_object_info info = {.struct_size = sizeof info};
    const uint64_t most =
        STK_MIN(STK__NETCDF3_MAX_HEADER, stk__context_memory_limit(ctx) / STK__NETCDF3_PART);
    stk_status status = STK_ETRUNCATED;
    bool more = true;

    *out = (stk__netcdf3_header){.context = ctx};
    STK_TRY(stk_store_stat(store, key, NULL, &info, err));
    for (uint64_t length = STK_MIN(info.size, FIRST_READ); more; length *= 2) {
        stk__netcdf3_release(out);
        length = STK_MIN(length, info.size);
        if (length > most)
            return stk__fail_at(err, STK_ELIMIT, STK_STAGE_ARRAY, key, most,
                                "%s: the NetCDF header is longer than the %llu bytes that are "
                                "looked at (64 MiB, and an eighth of memory_limit)",
                                key, (unsigned long long)most);
        unsigned char *bytes = stk__alloc(ctx, STK_MAX(length, 1));
        if (!bytes)
            return stk__fail_at(err, STK_ENOMEM, STK_STAGE_ARRAY, key, STK_NO_OFFSET,
                                "no memory for the NetCDF header of %s", key);
        more = false;
        status = stk_store_read(store, key, 0, length, bytes, err);
        if (status == STK_OK)
            status = stk__netcdf3_parse(ctx, bytes, length, info.size, key, out, &more, err);
        out->bytes = bytes;
    }
    if (status == STK_OK)
        stk_error_init(err); /* of a header that was not there as a whole at first */
    return status;
}
