/* SPDX-License-Identifier: Apache-2.0 */
/* Predictions, with structs of the caller's version. */
#include "sizes.h"

void sizes_predictions(stk_context *ctx, stk_figures *figures)
{
    SIZED(stk_recording, recording);
    SIZED(stk_prediction, prediction);
    SIZED(stk_verdict, verdict);
    stk_what_if *what = NEW(stk_what_if);
    char text[1024];

    stk_what_if_init(what);
    OK(stk_what_if_parse(ctx, "num_workers=2", what, &err));
    CHECK(what->num_workers == 2 && what->struct_size == sizeof *what);
    CHECK(stk_what_if_format(what, text, sizeof text) > 0 && strcmp(text, "num_workers=2") == 0);
    figures->num_workers = 1;
    figures->batch_size = 1;
    figures->prepare_busy = 1;
    recording->figures = figures;
    OK(stk_predict(ctx, recording, what, prediction, &err));
    CHECK(prediction->struct_size == sizeof *prediction && prediction->samples_per_s > 9);
    CHECK(stk_prediction_format(prediction, text, sizeof text) > 0);
    stk_judge_recording(ctx, recording, verdict);
    CHECK(verdict->struct_size == sizeof *verdict);
}
