/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LZMA as Python's module and numcodecs have it: format 0 (found out), 1 (.xz, streams in a row),
 * 2 (.lzma) and 3 (raw, its filters from the configuration). Memory comes from the state and is
 * bounded by the configuration: a chunk with a larger dictionary is refused.
 */
#include <lzma.h>

#include "codec/state.h"
#include "codec/step.h"

#define MEMORY_MAX (UINT64_C(128) << 20) /* preset 9 wants 65 MiB to decode */
#define SLACK      (UINT64_C(64) << 10)
#define CHECK_AUTO (-1)

static const stk__reasons reasons = STK__REASONS("lzma");

static void *alloc(void *state, size_t count, size_t size)
{
    uint64_t bytes;

    return stk__mul_size(count, size, &bytes) ? stk__spare_alloc(state, bytes) : NULL;
}

static void release(void *state, void *memory)
{
    stk__spare_free(state, memory);
}

static stk_status failed(stk__codec_pass *pass, lzma_ret code)
{
    switch (code) {
    case LZMA_MEM_ERROR:
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    case LZMA_MEMLIMIT_ERROR:
        return stk__pass_fail(pass, STK_ELIMIT,
                              "its lzma dictionary is larger than the preset in the metadata asks "
                              "for, or 128 MiB; write it again with that preset");
    case LZMA_BUF_ERROR:
        return stk__pass_fail(pass, STK_ETRUNCATED, reasons.truncated);
    case LZMA_OPTIONS_ERROR:
        return stk__pass_fail(pass, STK_EKIND,
                              "its lzma filters are not known to this liblzma; write it again with "
                              "a preset");
    default:
        return stk__pass_fail(pass, STK_EFORMAT, reasons.damaged);
    }
}

/* ---- Filters of the configuration ---- */

typedef struct filter_room {
    lzma_filter chain[STK__LZMA_FILTERS + 1];
    union {
        lzma_options_lzma lzma;
        lzma_options_delta delta;
        lzma_options_bcj bcj;
    } options[STK__LZMA_FILTERS];
} filter_room;

/* In the order of the bits in `given`. */
enum { DICT_SIZE = 1, LC = 2, LP = 4, PB = 8, MODE = 16, NICE = 32, MF = 64, DEPTH = 128 };

static bool fill_lzma(const struct stk__lzma_filter *f, lzma_options_lzma *o)
{
    if (lzma_lzma_preset(o, f->preset))
        return false;
    if (f->given & DICT_SIZE)
        o->dict_size = f->dict_size;
    if (f->given & LC)
        o->lc = f->lc;
    if (f->given & LP)
        o->lp = f->lp;
    if (f->given & PB)
        o->pb = f->pb;
    if (f->given & MODE)
        o->mode = (lzma_mode)f->mode;
    if (f->given & NICE)
        o->nice_len = f->nice_len;
    if (f->given & MF)
        o->mf = (lzma_match_finder)f->mf;
    if (f->given & DEPTH)
        o->depth = f->depth;
    return true;
}

static bool fill_filters(const struct stk__lzma_step *step, filter_room *room)
{
    memset(room, 0, sizeof *room);
    for (int i = 0; i < step->filters; i++) {
        const struct stk__lzma_filter *f = &step->filter[i];
        room->chain[i] = (lzma_filter){f->id, &room->options[i]};
        if (f->id == LZMA_FILTER_LZMA1 || f->id == LZMA_FILTER_LZMA2) {
            if (!fill_lzma(f, &room->options[i].lzma))
                return false;
        } else if (f->id == LZMA_FILTER_DELTA) {
            room->options[i].delta =
                (lzma_options_delta){.type = LZMA_DELTA_TYPE_BYTE, .dist = f->value ? f->value : 1};
        } else {
            room->options[i].bcj.start_offset = f->value;
        }
    }
    room->chain[step->filters].id = LZMA_VLI_UNKNOWN;
    return true;
}

/* What a raw decoder would hold for a dictionary from the configuration is not checked by it. */
static void bound_dictionaries(filter_room *room, int filters, uint64_t most)
{
    for (int i = 0; i < filters; i++)
        if (room->chain[i].id == LZMA_FILTER_LZMA1 || room->chain[i].id == LZMA_FILTER_LZMA2) {
            /* Nothing lies further back than the output is long. */
            uint64_t wanted = STK_MAX(most, (uint64_t)LZMA_DICT_SIZE_MIN);
            if (room->options[i].lzma.dict_size > wanted)
                room->options[i].lzma.dict_size = (uint32_t)wanted;
        }
}

uint64_t stk__lzma_memory(const struct stk__lzma_step *step, uint64_t size)
{
    /* A default is not always written, and it is the least that is expected of a reader. */
    uint64_t usual = lzma_easy_decoder_memusage(LZMA_PRESET_DEFAULT);
    uint64_t bytes = lzma_easy_decoder_memusage(step->preset);
    filter_room room;

    if (step->filters && fill_filters(step, &room)) {
        if (step->format == STK__LZMA_RAW)
            bound_dictionaries(&room, step->filters, size);
        bytes = lzma_raw_decoder_memusage(room.chain);
    }
    if (bytes == UINT64_MAX) /* not known to this liblzma: decoding will say so */
        bytes = usual;
    if (step->format != STK__LZMA_RAW)
        bytes = STK_MAX(bytes, usual);
    return STK_MIN(bytes + SLACK, MEMORY_MAX);
}

void stk__lzma_block(struct stk__lzma_step *step, uint32_t preset, uint32_t dict_size)
{
    *step = (struct stk__lzma_step){
        .format = STK__LZMA_XZ, .check = LZMA_CHECK_CRC32, .filters = 1, .preset = preset};
    step->filter[0] = (struct stk__lzma_filter){
        .id = LZMA_FILTER_LZMA2, .preset = preset, .dict_size = dict_size, .given = DICT_SIZE};
}

/* ---- Decoding ---- */

static lzma_ret begin(const struct stk__lzma_step *step, lzma_stream *z, stk__codec_pass *pass)
{
    filter_room room;

    switch (step->format) {
    case STK__LZMA_AUTO:
        return lzma_auto_decoder(z, step->memory, LZMA_CONCATENATED);
    case STK__LZMA_XZ:
        return lzma_stream_decoder(z, step->memory, LZMA_CONCATENATED);
    case STK__LZMA_ALONE:
        return lzma_alone_decoder(z, step->memory);
    default:
        if (!fill_filters(step, &room))
            return LZMA_OPTIONS_ERROR;
        bound_dictionaries(&room, step->filters, pass->capacity);
        if (lzma_raw_decoder_memusage(room.chain) > step->memory)
            return LZMA_MEMLIMIT_ERROR;
        return lzma_raw_decoder(z, room.chain);
    }
}

static lzma_ret run(lzma_stream *z, stk__codec_pass *pass, bool *longer)
{
    bool whole = pass->needed == pass->capacity;
    uint8_t beyond;
    lzma_ret code;

    z->next_in = pass->in;
    z->avail_in = pass->length;
    z->next_out = pass->out;
    z->avail_out = pass->needed;
    code = lzma_code(z, LZMA_FINISH);
    pass->got = pass->needed - z->avail_out;
    if (code != LZMA_OK && code != LZMA_BUF_ERROR)
        return code;
    if (z->avail_out) /* out of input */
        return LZMA_BUF_ERROR;
    if (!whole)
        return LZMA_STREAM_END;
    /* The output is full: only the end may follow. */
    z->next_out = &beyond;
    z->avail_out = 1;
    do
        code = lzma_code(z, LZMA_FINISH);
    while (code == LZMA_OK && z->avail_out);
    *longer = !z->avail_out;
    return *longer ? LZMA_DATA_ERROR : code;
}

static stk_status decode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    lzma_allocator memory = {alloc, release, state};
    lzma_stream z = LZMA_STREAM_INIT;
    bool longer = false;

    z.allocator = &memory;
    lzma_ret code = begin(&step->u.lzma, &z, pass);
    if (code == LZMA_OK)
        code = run(&z, pass, &longer);
    /* A raw stream need not have an end: what is full, with no input left, is whole. */
    if (code == LZMA_BUF_ERROR && step->u.lzma.format == STK__LZMA_RAW && !z.avail_in &&
        pass->got == pass->capacity)
        code = LZMA_STREAM_END;
    if (code == LZMA_STREAM_END && z.avail_in && pass->needed == pass->capacity)
        code = LZMA_DATA_ERROR;
    lzma_end(&z);
    if (longer)
        return stk__pass_fail(pass, STK_EFORMAT, reasons.longer);
    return code == LZMA_STREAM_END ? STK_OK : failed(pass, code);
}

/* ---- Encoding ---- */

static lzma_ret begin_encode(const struct stk__lzma_step *step, lzma_stream *z)
{
    lzma_check check = step->check == CHECK_AUTO ? LZMA_CHECK_CRC64 : (lzma_check)step->check;
    lzma_options_lzma options;
    filter_room room;

    if (step->format == STK__LZMA_XZ && !step->filters)
        return lzma_easy_encoder(z, step->preset, check);
    if (step->format == STK__LZMA_ALONE && !step->filters)
        return lzma_lzma_preset(&options, step->preset) ? LZMA_OPTIONS_ERROR
                                                        : lzma_alone_encoder(z, &options);
    if (!fill_filters(step, &room))
        return LZMA_OPTIONS_ERROR;
    if (step->format == STK__LZMA_XZ)
        return lzma_stream_encoder(z, room.chain, check);
    if (step->format == STK__LZMA_ALONE)
        return lzma_alone_encoder(z, &room.options[0].lzma);
    return lzma_raw_encoder(z, room.chain);
}

static stk_status encode(const stk__codec_step *step, stk__codec_state *state,
                         stk__codec_pass *pass)
{
    lzma_allocator memory = {alloc, release, state};
    lzma_stream z = LZMA_STREAM_INIT;

    z.allocator = &memory;
    lzma_ret code = begin_encode(&step->u.lzma, &z);
    if (code == LZMA_OK) {
        z.next_in = pass->in;
        z.avail_in = pass->length;
        z.next_out = pass->out;
        z.avail_out = pass->capacity;
        code = lzma_code(&z, LZMA_FINISH);
        pass->got = pass->capacity - z.avail_out;
    }
    lzma_end(&z);
    if (code == LZMA_STREAM_END)
        return STK_OK;
    if (code == LZMA_MEM_ERROR)
        return stk__pass_fail(pass, STK_ENOMEM, reasons.memory);
    return stk__pass_fail(pass, STK_EINVAL,
                          "lzma could not compress the chunk; try a preset in place of filters");
}

static bool bound(const stk__codec_step *step, uint64_t size, uint64_t *out)
{
    return stk__add_size(size, size / 16 + 4096, out);
}

const stk__codec_ops stk__codec_lzma = {
    .name = "lzma", .reasons = &reasons, .decode = decode, .encode = encode, .bound = bound};
