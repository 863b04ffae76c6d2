/* SPDX-License-Identifier: Apache-2.0 */
/* Everything, in the order of the flow. */
#ifndef STOKER_H
#define STOKER_H

#include <stoker/base.h>
#include <stoker/dataset.h>
#include <stoker/loader.h>
#include <stoker/measure.h>
#include <stoker/options.h>
#include <stoker/store.h>
#include <stoker/transform.h>

#endif
