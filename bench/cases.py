# SPDX-License-Identifier: Apache-2.0
"""What a comparison of ./dev bench is."""
from dataclasses import dataclass, field


@dataclass
class Case:
    """One comparison: the same work by ours, the rivals and a bound, judged by one figure."""
    name: str
    ours: str                        # program below bench/ of the build folder, or script of the tree, with its options;
                                     # one below bench/python/ runs by the rivals' interpreter, with our package
    peers: dict = field(default_factory=dict)   # name -> options of the rivals' script
    bound: str = ""                  # program below bench/bounds/, or a number
    figure: str = "samples_per_s"    # of the JSON line
    lower: bool = False              # whether less is better
    bound_figure: str = ""           # of the bound's line, where it is another one
    seconds: bool = True             # whether ours takes --seconds
    bars: tuple = ()                 # (text, function of figures -> (value, whether it holds))
    script: str = ""                 # of the rivals, where it is not the workload's; with a folder, of this tree
    server: str = ""                 # options of the web server that runs meanwhile: {server} is its address, rivals get --server
    other: str = ""                  # of a second one: {other}


@dataclass
class Workload:
    doc: str
    cases: list
    script: str = ""                 # of the rivals
