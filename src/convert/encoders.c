/* SPDX-License-Identifier: Apache-2.0 */
#include "convert/encoders.h"

struct stk__encoders {
    stk_context *ctx;
    uint32_t num_members;
    pthread_mutex_t lock;           /* guards what follows */
    const stk_array_writer *writer; /* of the array that is written now */
    stk__encoder **each;            /* by member, its own once it has it; NULL: not used yet */
};

static void drop(stk__encoders *e)
{
    for (uint32_t i = 0; i < e->num_members; i++)
        stk__encoder_destroy(&e->each[i]);
}

stk_status stk__encoders_create(stk_context *ctx, uint32_t num_members, stk__encoders **out,
                                stk_error *err)
{
    stk__encoders *e = stk__calloc(ctx, 1, sizeof *e);
    stk__encoder **each = stk__calloc(ctx, STK_MAX(num_members, 1), sizeof(stk__encoder *));

    *out = e;
    if (e && each) {
        *e = (stk__encoders){.ctx = ctx, .num_members = num_members, .each = each};
        pthread_mutex_init(&e->lock, NULL);
        return STK_OK;
    }
    *out = NULL;
    stk__free(ctx, each);
    stk__free(ctx, e);
    return stk__fail(err, STK_ENOMEM, STK_STAGE_CONVERT, "no memory to encode arrays");
}

void stk__encoders_destroy(stk__encoders **encoders)
{
    stk__encoders *e = *encoders;

    *encoders = NULL;
    if (!e)
        return;
    drop(e);
    pthread_mutex_destroy(&e->lock);
    stk__free(e->ctx, e->each);
    stk__free(e->ctx, e);
}

/* Those of the array before go all at once: fewer threads may write this one, and what the others
 * held is memory that is counted for them. */
static stk_status take(stk__encoders *e, uint32_t member, const stk_array_writer *writer,
                       stk__encoder **out, stk_error *err)
{
    stk_status status = STK_OK;

    pthread_mutex_lock(&e->lock);
    if (e->writer != writer)
        drop(e);
    e->writer = writer;
    if (!e->each[member])
        status = stk__encoder_create(writer, &e->each[member], err);
    *out = e->each[member];
    pthread_mutex_unlock(&e->lock);
    return status;
}

stk_status stk__encoders_run(stk__encoders *e, uint32_t member, const stk_array_writer *writer,
                             const stk__target_box *box, bool verify, const void **bytes,
                             uint64_t *length, stk_error *err)
{
    stk__encoder *encoder;

    STK_TRY(take(e, member, writer, &encoder, err));
    STK_TRY(stk__encoder_run(encoder, box->start, box->shape, box->data, box->strides, bytes,
                             length, err));
    return verify && *length
               ? stk__encoder_check(encoder, box->start, box->shape, box->data, box->strides, err)
               : STK_OK;
}
