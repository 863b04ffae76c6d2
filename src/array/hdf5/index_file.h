/* a dataset -> the index of its chunks, kept beside the file. Inside src/array only. */
/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STK_SRC_ARRAY_HDF5_INDEX_FILE_H
#define STK_SRC_ARRAY_HDF5_INDEX_FILE_H

#include "array/hdf5/dataset.h"

#define STK__SIDECAR_ENDING ".stoker-index"

/* Where the chunks of a dataset lie. `kept`: the file beside the data may be read and written. The
 * chunks are the caller's, also on failure. */
stk_status stk__hdf5_index_of(stk__hdf5 *f, const stk__hdf5_dataset *d, bool kept,
                              stk__hdf5_index *out);

#endif
