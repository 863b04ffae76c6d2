# SPDX-License-Identifier: Apache-2.0
"""A cluster of Dask as a process of its own: python -m stoker._dask_cluster OPTIONS

It says its address and ends with its standard input, so whoever began it, however that ends.
"""
import ast
import sys
from typing import Any


def main() -> None:
    import distributed

    cluster_type: Any = distributed.LocalCluster
    with cluster_type(**ast.literal_eval(sys.argv[1])) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
