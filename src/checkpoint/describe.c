/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "checkpoint/hash.h"
#include "checkpoint/parts.h"
#include "checkpoint/weights/weights.h"

#define SHOWN_TEXT    80 /* bytes of a text that is shown whole */
#define SHOWN_TENSORS 64 /* tensors that are listed one by one */

typedef void line_fn(void *user, const char *name, const char *value);

/* Of a parameter, real or complex. */
static bool is_number(stk_dtype dtype)
{
    return stk__dtype_is_float(dtype) || dtype == STK_COMPLEX64 || dtype == STK_COMPLEX128;
}

static void number_line(line_fn *line, void *user, const char *name, uint64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%" PRIu64, value);
    line(user, name, text);
}

#define OF_TEXTS   "__metadata__." /* in front of a text's name, */
#define OF_TENSORS "tensor."       /* and of a tensor's that is taken */

/* Whether a line of what a file is, or of one of its texts, has this name; or that of a tensor
 * whose own is taken. */
static bool is_taken(const char *name)
{
    static const char *const names[] = {"checkpoint",     "format",         "parts",
                                        "verified",       "parameters",     "bytes",
                                        "bytes_of_model", "bytes_of_state", "tensors"};

    while (strncmp(name, OF_TENSORS, strlen(OF_TENSORS)) == 0)
        name += strlen(OF_TENSORS);
    for (size_t i = 0; i < STK_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return strncmp(name, OF_TEXTS, strlen(OF_TEXTS)) == 0;
}

/* A line whose name is another program's, behind `in`. */
static void foreign_line(line_fn *line, void *user, const char *in, const char *name,
                         const char *value)
{
    char whole[1024];

    snprintf(whole, sizeof whole, "%s%s", in, name);
    line(user, whole, value);
}

static void tensor_line(line_fn *line, void *user, const stk_state_tensor *t)
{
    char bytes[256];
    stk__text text = {.bytes = bytes, .room = sizeof bytes};

    stk__text_add(&text, "%s ", stk_dtype_name(t->dtype));
    stk__text_add_shape(&text, t->shape, t->rank, false);
    if (is_taken(t->name))
        foreign_line(line, user, OF_TENSORS, t->name, bytes);
    else
        line(user, t->name, bytes);
}

/* Texts: the short ones whole, of the others how long they are. Those of others may have the name
 * of a line, as their "format" has. */
static void text_lines(line_fn *line, void *user, const stk__safetensors *s, bool ours)
{
    char text[64];

    for (size_t i = 0; i < s->num_texts; i++) {
        const char *name = s->texts[i].name;
        size_t length = strlen(s->texts[i].text);
        if (strcmp(name, STK__CHECKPOINT_LAYOUT) == 0 || strcmp(name, STK__CHECKPOINT_HASH) == 0)
            continue;
        snprintf(text, sizeof text, "%zu bytes of text", length);
        const char *shown = length <= SHOWN_TEXT ? s->texts[i].text : text;
        if (ours)
            line(user, name, shown);
        else
            foreign_line(line, user, OF_TEXTS, name, shown);
    }
}

/* Numbers of the tensors, and the first of them one by one. */
static void tensor_lines(line_fn *line, void *user, const stk_state_tensor *tensors, size_t n,
                         uint64_t file_bytes)
{
    uint64_t parameters = 0, bytes = 0, own_bytes = 0;

    for (size_t i = 0; i < n; i++) {
        const stk_state_tensor *t = &tensors[i];
        if (stk__checkpoint_is_own(t->name)) {
            own_bytes += t->bytes;
        } else {
            parameters += is_number(t->dtype) ? t->bytes / stk_dtype_size(t->dtype) : 0;
            bytes += t->bytes;
        }
    }
    number_line(line, user, "parameters", parameters);
    if (file_bytes)
        number_line(line, user, "bytes", file_bytes);
    number_line(line, user, "bytes_of_model", bytes);
    number_line(line, user, "bytes_of_state", own_bytes);
    number_line(line, user, "tensors", n);
    for (size_t i = 0, shown = 0; i < n && shown < SHOWN_TENSORS; i++) {
        if (stk__checkpoint_is_own(tensors[i].name))
            continue;
        tensor_line(line, user, &tensors[i]);
        shown++;
    }
}

static void describe(line_fn *line, void *user, const char *path, const stk__safetensors_file *file,
                     bool ours, const stk__parts_told *parts)
{
    line(user, "checkpoint", path);
    line(user, "format", "safetensors");
    if (parts->count)
        number_line(line, user, "parts", parts->count);
    line(user, "verified",
         ours ? "yes, every byte" : "no: weights alone, without a hash of their own");
    text_lines(line, user, &file->parsed, ours);
    tensor_lines(line, user, file->parsed.tensors, file->parsed.num_tensors,
                 file->source.size + parts->bytes);
}

/* Of torch.save(): tensors alone, else it is refused. */
static stk_status describe_pth(stk_context *ctx, const stk__checkpoint_source *source,
                               const char *path, line_fn *line, void *user, stk_error *err)
{
    stk__pth pth;

    STK_TRY(stk__pth_verify(ctx, source, path, &pth, err));
    line(user, "checkpoint", path);
    line(user, "format", "pth");
    line(user, "verified", "yes, every tensor by its checksum");
    tensor_lines(line, user, pth.tensors, pth.num_tensors, 0);
    stk__pth_release(&pth);
    return STK_OK;
}

static stk_status describe_safetensors(stk_context *ctx, stk__checkpoint_source *source,
                                       const char *path, line_fn *line, void *user, stk_error *err)
{
    stk__safetensors_file file;
    stk__parts_told parts = {.count = 0};

    STK_TRY(stk__safetensors_file_take(ctx, source, path, &file, err));
    const bool ours = stk__safetensors_find_text(&file.parsed, STK__CHECKPOINT_HASH) != NULL;
    stk_status status = ours ? stk__checkpoint_verify_alone(ctx, &file, path, err) : STK_OK;
    if (status == STK_OK && ours)
        status = stk__parts_verify(&file, path, 0, 1, &parts, err);
    if (status == STK_OK)
        describe(line, user, path, &file, ours, &parts);
    stk__safetensors_file_close(&file);
    return status;
}

stk_status stk_checkpoint_describe(stk_context *ctx, const char *path, line_fn *line, void *user,
                                   stk_error *err)
{
    stk__checkpoint_source source;
    bool pth = false;

    STK_TRY(stk__context_check(ctx, err));
    STK_TRY(stk__weights_open(ctx, path, &source, &pth, err));
    const stk_status status = pth ? describe_pth(ctx, &source, path, line, user, err)
                                  : describe_safetensors(ctx, &source, path, line, user, err);
    stk__checkpoint_source_close(&source);
    return status;
}
