#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run.sh TEST [ARGUMENTS]: with the interpreter of STOKER_TEST_PYTHON, which has NumPy.
python=${STOKER_TEST_PYTHON:-python3}
"$python" -c 'import sys, numpy; assert sys.version_info >= (3, 11)' 2>/dev/null || {
    echo "skipped: $python is not Python 3.11 or later with NumPy"
    exit 77
}
exec "$python" -X dev "$@"
