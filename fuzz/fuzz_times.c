/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units, calendars and dates. Input: two bytes of length and the option select, two bytes of length
 * and the units, two of the calendar, the eight elements of the coordinate. What must hold: what is
 * selected is not empty and within the array, every date that is shown is read back as the same
 * instant, and what fails says why.
 */
#include "base/calendar.h"
#include "dataset/window.h"
#include "fuzz_support.h"

#define N 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input as a text of an URL or of JSON: what would end it is left out. */
static void take_text(const uint8_t **data, size_t *size, char *text, size_t room)
{
    size_t length, n = 0;
    const uint8_t *from = fuzz_take(data, size, &length);

    for (size_t i = 0; i < length && n + 1 < room; i++)
        if (from[i] >= 0x20 && from[i] < 0x7f && !strchr("\"\\&?%#", from[i]))
            text[n++] = (char)from[i];
    text[n] = 0;
}

static void put_array(stk_store *store, const char *key, const char *shape, const char *names,
                      const char *attributes)
{
    char text[1200];
    const int length = snprintf(
        text, sizeof text,
        "{\"zarr_format\":3,\"node_type\":\"array\",\"shape\":[%s],\"data_type\":\"%s\",\"chunk_"
        "grid\""
        ":{\"name\":\"regular\",\"configuration\":{\"chunk_shape\":[%s]}},\"chunk_key_encoding\":{"
        "\"name\":\"default\"},\"fill_value\":0,\"codecs\":[{\"name\":\"bytes\",\"configuration\":{"
        "\"endian\":\"little\"}}],\"dimension_names\":[%s],\"attributes\":{%s}}",
        shape, *attributes ? "int64" : "int8", shape, names, attributes);

    fuzz_put(store, key, (const uint8_t *)text, (size_t)length);
}

static void check_dates(const char *text)
{
    char shown[STK__DATE_TEXT];
    int64_t begin, end, again;
    stk__date date, back;

    const size_t length = stk__date_read(text, &date);
    FUZZ_CHECK(length <= strlen(text));
    for (int c = STK__CALENDAR_STANDARD; length && c <= STK__CALENDAR_360; c++) {
        if (!stk__calendar_period((stk__calendar)c, &date, &begin, &end))
            continue;
        FUZZ_CHECK(begin < end);
        stk__calendar_text((stk__calendar)c, end - 1, shown);
        FUZZ_CHECK(stk__date_read(shown, &back) == strlen(shown));
        FUZZ_CHECK(stk__calendar_instant((stk__calendar)c, &back, &again) && again == end - 1);
    }
    (void)stk__date_read_reference(text, &date, &begin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char select[256], units[256], calendar[64], text[700];
    uint8_t values[8 * N] = {0};
    stk_dataset *dataset = NULL;
    stk_error err;

    fuzz_room room = fuzz_open("mem://g");
    take_text(&data, &size, select, sizeof select);
    take_text(&data, &size, units, sizeof units);
    take_text(&data, &size, calendar, sizeof calendar);
    memcpy(values, data, size < sizeof values ? size : sizeof values);
    snprintf(text, sizeof text, "\"units\":\"%s\",\"calendar\":\"%s\"", units, calendar);
    put_array(room.store, "time/zarr.json", "8", "\"time\"", text);
    put_array(room.store, "v/zarr.json", "8,3", "\"time\",\"x\"", "");
    fuzz_put(room.store, "time/c/0", values, sizeof values);
    fuzz_ready(&room);
    check_dates(select);
    check_dates(units);
    snprintf(text, sizeof text, "array:mem://g/v?select=%s", select);
    stk_error_init(&err);
    if (stk_dataset_open(room.ctx, text, &dataset, &err) == STK_OK) {
        const stk__window_dim *dim = &((stk__window *)dataset)->dims[0];
        FUZZ_CHECK(dim->begin >= 0 && dim->begin < dim->end && dim->end <= N);
        stk_dataset_close(&dataset);
    } else {
        FUZZ_CHECK(!dataset && err.text[0] && err.status != STK_EINTERNAL);
    }
    fuzz_close(&room);
    return 0;
}
