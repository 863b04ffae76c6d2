/* SPDX-License-Identifier: Apache-2.0 */
#include "codec/image/libjpeg.h"

#include <jerror.h>

/* What a message of libjpeg means to the user. */
static const char *reason_of(const stk__libjpeg *l, int code, stk_status *status)
{
    *status = STK_EFORMAT;
    switch (code) {
    case JERR_OUT_OF_MEMORY:
        *status = STK_ENOMEM;
        return "no memory for the JPEG; free some, or use fewer workers";
    case JERR_NO_BACKING_STORE:
        *status = STK_ELIMIT;
        return l->too_large;
    case JERR_INPUT_EOF:
    case JERR_INPUT_EMPTY:
    case JWRN_JPEG_EOF:
        *status = STK_ETRUNCATED;
        return STK__JPEG_ENDS;
    case JERR_ARITH_NOTIMPL:
    case JERR_SOF_UNSUPPORTED:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_BAD_MCU_SIZE:
    case JERR_NOT_COMPILED:
    case JERR_NOTIMPL:
        *status = STK_EKIND;
        return "this kind of JPEG is not supported by libjpeg; save it as a baseline JPEG";
    case JWRN_HIT_MARKER:
        return STK__JPEG_HIT_MARKER;
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
        return STK__JPEG_BAD_CODE;
    case JWRN_EXTRANEOUS_DATA:
        return "corrupt JPEG data: bytes that belong to nothing before a marker; copy or download "
               "it again";
    case JWRN_MUST_RESYNC:
        return STK__JPEG_RESYNC;
    case JWRN_BOGUS_PROGRESSION:
        return "corrupt JPEG data: scans of the progressive picture contradict each other; copy "
               "or download it again";
    case JERR_NO_HUFF_TABLE:
    case JERR_NO_QUANT_TABLE:
    case JERR_NO_ARITH_TABLE:
        return "the JPEG uses a table that it does not define; copy or download it again";
    default:
        return "the JPEG is damaged: libjpeg refuses its structure; copy or download it again";
    }
}

static void on_error(j_common_ptr common)
{
    stk__libjpeg *l = common->client_data;
    stk_status status;
    const char *reason = reason_of(l, common->err->msg_code, &status);

    stk__libjpeg_escape(l, status, reason);
}

/* Level -1 is a warning. All count as damage but those that say nothing about the pixels. */
static void on_message(j_common_ptr common, int level)
{
    int code = common->err->msg_code;

    if (level < 0 && code != JWRN_JFIF_MAJOR && code != JWRN_ADOBE_XFORM &&
        code != JWRN_NOT_SEQUENTIAL)
        on_error(common);
}

static void print_nothing(j_common_ptr common)
{
}

static void source_nothing(j_decompress_ptr library)
{
}

static boolean source_fill(j_decompress_ptr library)
{
    library->err->msg_code = JERR_INPUT_EOF;
    on_error((j_common_ptr)library);
    return FALSE;
}

static void source_skip(j_decompress_ptr library, long count)
{
    struct jpeg_source_mgr *source = library->src;

    if (count <= 0)
        return;
    if ((size_t)count > source->bytes_in_buffer)
        source_fill(library);
    source->next_input_byte += count;
    source->bytes_in_buffer -= (size_t)count;
}

/* Called for each row of blocks while the scans of a picture are read, and each row that comes out.
 */
static void on_progress(j_common_ptr common)
{
    stk__libjpeg *l = common->client_data;

    if ((uint32_t)((j_decompress_ptr)common)->input_scan_number > l->max_scans)
        stk__libjpeg_escape(l, STK_ELIMIT, STK__JPEG_MANY_SCANS);
}

void stk__libjpeg_init(stk__libjpeg *l, const char *too_large)
{
    jpeg_std_error(&l->errors);
    l->errors.error_exit = on_error;
    l->errors.emit_message = on_message;
    l->errors.output_message = print_nothing;
    l->source = (struct jpeg_source_mgr){.init_source = source_nothing,
                                         .fill_input_buffer = source_fill,
                                         .skip_input_data = source_skip,
                                         .resync_to_restart = jpeg_resync_to_restart,
                                         .term_source = source_nothing};
    l->progress.progress_monitor = on_progress;
    l->too_large = too_large;
}

stk_status stk__libjpeg_guard(stk__libjpeg *l, stk_status (*work)(void *user, void *arguments),
                              void *arguments, const char **reason)
{
    if (setjmp(l->escape)) {
        *reason = l->reason;
        return l->status;
    }
    return work(l, arguments);
}

_Noreturn void stk__libjpeg_escape(stk__libjpeg *l, stk_status status, const char *reason)
{
    l->status = status;
    l->reason = reason;
    longjmp(l->escape, 1);
}

void stk__libjpeg_offer(stk__libjpeg *l, const uint8_t *data, uint64_t length)
{
    l->source.next_input_byte = data;
    l->source.bytes_in_buffer = length;
}
