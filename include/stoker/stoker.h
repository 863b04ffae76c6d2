/* SPDX-License-Identifier: Apache-2.0 */
/* Everything, in the order of the flow. */
#ifndef STOKER_H
#define STOKER_H

#include <stoker/array.h>
#include <stoker/arrow.h>
#include <stoker/base.h>
#include <stoker/bench.h>
#include <stoker/checkpoint.h>
#include <stoker/chunks.h>
#include <stoker/collectives.h>
#include <stoker/convert.h>
#include <stoker/dataset.h>
#include <stoker/device.h>
#include <stoker/dlpack.h>
#include <stoker/heartbeat.h>
#include <stoker/live.h>
#include <stoker/loader.h>
#include <stoker/machine.h>
#include <stoker/measure.h>
#include <stoker/model.h>
#include <stoker/module.h>
#include <stoker/options.h>
#include <stoker/plugin.h>
#include <stoker/profiler.h>
#include <stoker/ranks.h>
#include <stoker/recipe.h>
#include <stoker/report.h>
#include <stoker/store.h>
#include <stoker/strategy.h>
#include <stoker/trainer.h>
#include <stoker/transform.h>
#include <stoker/tune.h>

#endif
