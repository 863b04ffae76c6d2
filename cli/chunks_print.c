/* SPDX-License-Identifier: Apache-2.0 */
/* Figures -> a table, CSV or JSON. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chunks.h"
#include "table.h"

#define COLUMNS 7
#define GAP     2
#define TIMES   "\xc3\x97" /* U+00D7 */

/* The words and the order of the published table, then the expected values. */
static const char *const heads[COLUMNS] = {"chunk",         "min chunks", "max chunks",
                                           "min bytes",     "max bytes",  "expected chunks",
                                           "expected bytes"};

/* ---- Texts ----------------------------------------------------------------------------------- */

void chunks_shape_text(char text[CHUNKS_SHAPE_TEXT], const int64_t *sides, uint32_t rank,
                       const char *times)
{
    size_t used = 0;

    for (uint32_t i = 0; i < rank; i++)
        used += (size_t)snprintf(text + used, CHUNKS_SHAPE_TEXT - used, "%s%" PRId64,
                                 i ? times : "", sides[i]);
}

void chunks_grouped(char text[32], double value)
{
    char digits[32];
    size_t used = 0;

    int length = snprintf(digits, sizeof digits, "%.0f", value);
    for (int i = 0; i < length && used < 30; i++) {
        if (i && (length - i) % 3 == 0)
            text[used++] = ' ';
        text[used++] = digits[i];
    }
    text[used] = 0;
}

void chunks_seconds_text(char text[32], double seconds)
{
    static const char *const units[] = {"ns", "\xc2\xb5s", "ms", "s"};
    size_t i = 0;

    for (seconds *= 1e9; i < 3 && seconds >= 999.5; i++)
        seconds /= 1000;
    snprintf(text, 32, seconds < 99.95 ? "%.3g %s" : "%.0f %s", seconds, units[i]);
}

/* ---- Table ----------------------------------------------------------------------------------- */

static void row_texts(const struct chunks_task *task, const struct chunks_result *result, size_t i,
                      char cells[COLUMNS][CHUNKS_SHAPE_TEXT])
{
    const stk_chunks_counts *c = &result->counts[i];

    chunks_shape_text(cells[0], task->shapes[i], task->question.rank, TIMES);
    chunks_grouped(cells[1], (double)c->least_chunks);
    chunks_grouped(cells[2], (double)c->most_chunks);
    chunks_grouped(cells[3], (double)c->least_bytes);
    chunks_grouped(cells[4], (double)c->most_bytes);
    if (c->expected_chunks < 1000)
        snprintf(cells[5], CHUNKS_SHAPE_TEXT, "%.2f", c->expected_chunks);
    else
        chunks_grouped(cells[5], c->expected_chunks);
    chunks_grouped(cells[6], c->expected_bytes);
}

static void print_row(FILE *out, const char *const *cells, const size_t *widths)
{
    for (int k = 0; k < COLUMNS; k++) {
        int pad = (int)(widths[k] - cli_text_width(cells[k]));
        if (k == 0)
            fprintf(out, "%s%*s", cells[k], pad, "");
        else
            fprintf(out, "%*s%s", GAP + pad, "", cells[k]);
    }
    fputc('\n', out);
}

static void print_counts(FILE *out, const struct chunks_task *task,
                         const struct chunks_result *result)
{
    char cells[COLUMNS][CHUNKS_SHAPE_TEXT];
    const char *texts[COLUMNS];
    size_t widths[COLUMNS];

    for (int k = 0; k < COLUMNS; k++) {
        widths[k] = cli_text_width(heads[k]);
        texts[k] = cells[k];
    }
    for (size_t i = 0; i < task->num_shapes; i++) {
        row_texts(task, result, i, cells);
        for (int k = 0; k < COLUMNS; k++)
            if (cli_text_width(cells[k]) > widths[k])
                widths[k] = cli_text_width(cells[k]);
    }
    print_row(out, heads, widths);
    for (size_t i = 0; i < task->num_shapes; i++) {
        row_texts(task, result, i, cells);
        print_row(out, texts, widths);
    }
}

static void add_cost(struct cli_table *table, uint32_t rank, const char *place,
                     const stk_chunks_cost *c)
{
    struct cli_table_row *row = cli_table_row(table);
    char text[CHUNKS_SHAPE_TEXT];

    if (!row)
        return;
    snprintf(row->cells[0], CLI_TABLE_CELL, "%s", place);
    chunks_shape_text(text, c->chunk, rank, TIMES);
    snprintf(row->cells[1], CLI_TABLE_CELL, "%.*s", CLI_TABLE_CELL - 1, text);
    stk_size_text((double)c->counts.chunk_bytes, row->cells[2]);
    snprintf(row->cells[3], CLI_TABLE_CELL, c->requests < 9.5 ? "%.3g" : "%.0f", c->requests);
    stk_size_text(c->bytes, row->cells[4]);
    chunks_seconds_text(row->cells[5], c->seconds[STK_CHUNKS_TYPICAL]);
    chunks_seconds_text(row->cells[6], c->seconds[STK_CHUNKS_FAST]);
    chunks_seconds_text(row->cells[7], c->seconds[STK_CHUNKS_SLOW]);
    snprintf(row->cells[8], CLI_TABLE_CELL, c->regret < 0.9995 ? "%.1f %%" : "%.0f %%",
             100 * c->regret);
    stk_size_text(c->memory, row->cells[9]);
}

static void print_advice(struct cli *cli, const struct chunks_task *task,
                         const struct chunks_result *result)
{
    static const char *const names[][2] = {
        {"place", ""},         {"chunk", ""},        {"of", "size"},    {"requests", "a window"},
        {"bytes", "a window"}, {"time", "a window"}, {"fast", "store"}, {"slow", "store"},
        {"loses", "at most"},  {"memory", "decoded"}};
    const stk_chunks_answer *answer = &result->answer;
    struct cli_table table = {0};
    char place[16];

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cli_table_column(&table, names[i][0], names[i][1]);
    for (uint32_t i = 0; i < answer->num_ranked && i < task->top; i++) {
        snprintf(place, sizeof place, "%" PRIu32, i + 1);
        add_cost(&table, task->question.rank, place, &answer->ranked[i]);
    }
    for (size_t i = 0; i < task->num_shapes && task->listed; i++)
        add_cost(&table, task->question.rank, task->own && i == 0 ? "present" : "given",
                 &result->costs[i]);
    size_t width = cli_terminal_width(cli->out);
    fputc('\n', cli->out);
    cli_table_print(&table, width, cli->out);
    cli_table_free(&table);
    /* Where shapes were measured, these figures have the last word. */
    if (cli->quiet || task->measure)
        return;
    fputc('\n', cli->out);
    cli_paragraph(cli->out, width, 0, answer->text);
}

static void print_measured(struct cli *cli, const struct chunks_task *task,
                           const struct chunks_result *result)
{
    static const char *const names[][2] = {{"place", ""},
                                           {"chunk", ""},
                                           {"measured", "a window"},
                                           {"model", "a window"},
                                           {"codec", "ratio"}};
    const stk_chunks_question *q = &task->question;
    char shape[CHUNKS_SHAPE_TEXT], size[32], latency[32], bandwidth[32], words[CHUNKS_CONCLUSION];
    struct cli_table table = {0};

    chunks_shape_text(shape, result->sample.shape, q->rank, TIMES);
    stk_size_text((double)result->sample.bytes, size);
    chunks_seconds_text(latency, q->store.latency.typical);
    stk_size_text(q->store.bandwidth.typical, bandwidth);
    fprintf(cli->out,
            "\nMeasured on %s of the array (%s), written again with the codec %s, behind %s of "
            "latency and %s/s:\n",
            shape, size, result->sample.codec, latency, bandwidth);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        cli_table_column(&table, names[i][0], names[i][1]);
    for (size_t i = 0; i < result->num_measured; i++) {
        const struct chunks_measured *m = &result->measured[i];
        struct cli_table_row *row = cli_table_row(&table);
        if (!row)
            break;
        snprintf(row->cells[0], CLI_TABLE_CELL, "%s", m->place);
        chunks_shape_text(shape, m->chunk, q->rank, TIMES);
        snprintf(row->cells[1], CLI_TABLE_CELL, "%.*s", CLI_TABLE_CELL - 1, shape);
        if (m->figures.note) {
            snprintf(row->note, sizeof row->note, "%s: %s", shape, m->figures.note);
            continue;
        }
        chunks_seconds_text(row->cells[2], m->figures.seconds);
        chunks_seconds_text(row->cells[3], m->model);
        snprintf(row->cells[4], CLI_TABLE_CELL, isnan(m->figures.ratio) ? "-" : "%.3g",
                 m->figures.ratio);
    }
    const size_t width = cli_terminal_width(cli->out);
    cli_table_print(&table, width, cli->out);
    cli_table_free(&table);
    if (cli->quiet)
        return;
    chunks_conclude(task, result, words, sizeof words);
    fputc('\n', cli->out);
    cli_paragraph(cli->out, width, 0, words);
}

/* ---- CSV and JSON ---------------------------------------------------------------------------- */

/* A whole number without an exponent, another one as JSON has it. */
static void put_number(FILE *out, double value)
{
    if (value == floor(value) && fabs(value) < 0x1p53)
        fprintf(out, "%.0f", value);
    else
        cli_json_number(out, value);
}

/* Names and values behind the counts, where a recommendation was asked for. */
#define COSTS 14
static const char *const cost_names[COSTS] = {"chunk size",
                                              "requests",
                                              "bytes",
                                              "seconds",
                                              "seconds of fast store",
                                              "seconds of slow store",
                                              "wait seconds",
                                              "transfer seconds",
                                              "decode seconds",
                                              "copy seconds",
                                              "regret",
                                              "memory",
                                              "dollars",
                                              "needed bytes"};

static void cost_values(const stk_chunks_cost *c, double values[COSTS])
{
    const double v[COSTS] = {(double)c->counts.chunk_bytes,
                             c->requests,
                             c->bytes,
                             c->seconds[STK_CHUNKS_TYPICAL],
                             c->seconds[STK_CHUNKS_FAST],
                             c->seconds[STK_CHUNKS_SLOW],
                             c->wait_seconds,
                             c->transfer_seconds,
                             c->decode_seconds,
                             c->copy_seconds,
                             c->regret,
                             c->memory,
                             c->dollars,
                             (double)c->counts.window_bytes};

    memcpy(values, v, sizeof v);
}

/* What was measured of a shape; NULL: nothing. */
static const struct chunks_measured *measured_of(const struct chunks_result *result,
                                                 const int64_t *chunk, uint32_t rank)
{
    for (size_t i = 0; i < result->num_measured; i++)
        if (memcmp(result->measured[i].chunk, chunk, rank * sizeof *chunk) == 0)
            return &result->measured[i];
    return NULL;
}

static void csv_row(FILE *out, const struct chunks_task *task, const struct chunks_result *result,
                    const int64_t *chunk, const stk_chunks_counts *c, const stk_chunks_cost *cost,
                    uint32_t place)
{
    const struct chunks_measured *m = measured_of(result, chunk, task->question.rank);
    char shape[CHUNKS_SHAPE_TEXT];
    double values[COSTS];

    chunks_shape_text(shape, chunk, task->question.rank, "x");
    fprintf(out, "%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",", shape, c->least_chunks,
            c->most_chunks, c->least_bytes, c->most_bytes);
    put_number(out, c->expected_chunks);
    fputc(',', out);
    put_number(out, c->expected_bytes);
    if (cost) {
        fputc(',', out);
        if (place)
            fprintf(out, "%" PRIu32, place);
        cost_values(cost, values);
        for (int k = 0; k < COSTS; k++) {
            fputc(',', out);
            put_number(out, values[k]);
        }
        if (task->measure)
            fputc(',', out);
        if (m && !isnan(m->figures.seconds))
            put_number(out, m->figures.seconds);
    }
    fputc('\n', out);
}

static void print_csv(FILE *out, const struct chunks_task *task, const struct chunks_result *result)
{
    const stk_chunks_answer *answer = &result->answer;

    for (int k = 0; k < COLUMNS; k++)
        fprintf(out, "%s%s", k ? "," : "", heads[k]);
    if (task->advise) {
        fputs(",place", out);
        for (int k = 0; k < COSTS; k++)
            fprintf(out, ",%s", cost_names[k]);
        if (task->measure)
            fputs(",measured seconds", out);
    }
    fputc('\n', out);
    for (size_t i = 0; i < task->num_shapes; i++)
        csv_row(out, task, result, task->shapes[i], &result->counts[i],
                task->advise ? &result->costs[i] : NULL, 0);
    for (uint32_t i = 0; task->advise && i < answer->num_ranked && i < task->top; i++)
        csv_row(out, task, result, answer->ranked[i].chunk, &answer->ranked[i].counts,
                &answer->ranked[i], i + 1);
}

static void json_shape(FILE *out, const char *name, const int64_t *sides, uint32_t rank)
{
    fprintf(out, "\"%s\": [", name);
    for (uint32_t i = 0; i < rank; i++)
        fprintf(out, "%s%" PRId64, i ? ", " : "", sides[i]);
    fputc(']', out);
}

static void json_measured(FILE *out, const struct chunks_task *task,
                          const struct chunks_result *result)
{
    char words[CHUNKS_CONCLUSION];

    fputs(", \"measured\": {", out);
    json_shape(out, "sample", result->sample.shape, task->question.rank);
    fprintf(out, ", \"codec\": \"%s\", \"chunks\": [", result->sample.codec);
    for (size_t i = 0; i < result->num_measured; i++) {
        const struct chunks_measured *m = &result->measured[i];
        fputs(i ? ", {" : "{", out);
        json_shape(out, "chunk", m->chunk, task->question.rank);
        fprintf(out, ", \"place\": \"%s\", \"windows\": %.0f, \"seconds\": ", m->place,
                m->figures.windows);
        cli_json_number(out, m->figures.seconds);
        fputs(", \"model_seconds\": ", out);
        cli_json_number(out, m->model);
        fputs(", \"ratio\": ", out);
        cli_json_number(out, m->figures.ratio);
        fputs(", \"note\": ", out);
        if (m->figures.note)
            cli_json_string(out, m->figures.note);
        else
            fputs("null", out);
        fputc('}', out);
    }
    fputs("], ", out);
    if (result->chosen < result->num_measured)
        json_shape(out, "best", result->measured[result->chosen].chunk, task->question.rank);
    else
        fputs("\"best\": null", out);
    chunks_conclude(task, result, words, sizeof words);
    fputs(", \"why\": ", out);
    cli_json_string(out, words);
    fputc('}', out);
}

/* A name of a column as a key: "min chunks" -> "min_chunks". */
static void json_key(FILE *out, const char *name)
{
    fputs(", \"", out);
    for (; *name; name++)
        fputc(*name == ' ' ? '_' : *name, out);
    fputs("\": ", out);
}

static void json_row(FILE *out, const struct chunks_task *task, const int64_t *chunk,
                     const stk_chunks_counts *c, const stk_chunks_cost *cost)
{
    double values[COSTS];

    fputc('{', out);
    json_shape(out, "chunk", chunk, task->question.rank);
    const uint64_t integers[] = {c->least_chunks, c->most_chunks, c->least_bytes, c->most_bytes};
    for (int k = 0; k < 4; k++) {
        json_key(out, heads[k + 1]);
        fprintf(out, "%" PRIu64, integers[k]);
    }
    json_key(out, heads[5]);
    put_number(out, c->expected_chunks);
    json_key(out, heads[6]);
    put_number(out, c->expected_bytes);
    if (cost) {
        cost_values(cost, values);
        for (int k = 0; k < COSTS; k++) {
            json_key(out, cost_names[k]);
            put_number(out, values[k]);
        }
    }
    fputc('}', out);
}

static void print_json(FILE *out, const struct chunks_task *task,
                       const struct chunks_result *result)
{
    const stk_chunks_answer *answer = &result->answer;
    const stk_chunks_question *q = &task->question;

    fputc('{', out);
    json_shape(out, "window", q->window, q->rank);
    fputs(", ", out);
    json_shape(out, "stride", q->stride, q->rank);
    fputs(", ", out);
    json_shape(out, "extent", q->extent, q->rank);
    fprintf(out, ", \"itemsize\": %" PRIu64 ", \"ratio\": ", q->itemsize);
    put_number(out, q->ratio);
    fputs(", \"chunks\": [", out);
    for (size_t i = 0; i < task->num_shapes; i++) {
        fputs(i ? ", " : "", out);
        json_row(out, task, task->shapes[i], &result->counts[i],
                 task->advise ? &result->costs[i] : NULL);
    }
    fputc(']', out);
    if (task->advise) {
        static const char *const access[] = {"random", "sequential", "block"};
        fprintf(out, ", \"access\": \"%s\", \"store\": ", access[q->access]);
        cli_json_string(out, q->store.name);
        fputs(", \"recommended\": [", out);
        for (uint32_t i = 0; i < answer->num_ranked && i < task->top; i++) {
            fputs(i ? ", " : "", out);
            json_row(out, task, answer->ranked[i].chunk, &answer->ranked[i].counts,
                     &answer->ranked[i]);
        }
        fputs("], \"why\": ", out);
        cli_json_string(out, answer->text);
        if (task->measure)
            json_measured(out, task, result);
    }
    fputs("}\n", out);
}

void chunks_print(struct cli *cli, const struct chunks_task *task,
                  const struct chunks_result *result)
{
    if (cli->format == CLI_JSON) {
        print_json(cli->out, task, result);
    } else if (cli->format == CLI_CSV) {
        print_csv(cli->out, task, result);
    } else {
        print_counts(cli->out, task, result);
        if (task->advise)
            print_advice(cli, task, result);
        if (task->measure)
            print_measured(cli, task, result);
    }
}
