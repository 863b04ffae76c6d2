#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public function with a handle is called in a child by tests/unit/loader/test_fork.c.

check(ROOT, problem) holds the test against include/stoker/*.h. The exemptions take no lock, wait for nothing, touch no thread.
"""
import re
from pathlib import Path

TEST = Path("tests/unit/loader/test_fork.c")
# (pattern of names, why)
EXEMPT = [
    (r"stk_context_(create|cores|memory)", "makes one, or reads plain numbers"),
    (r"stk_machine_get", "reads plain numbers and files of the system"),
    (r"stk_array_(get_info|number|text|box_bytes|value_text|time_text)", "reads what opening fixed"),
    (r"stk_group_(node|attributes|is_consolidated)", "reads what opening fixed"),
    (r"stk_array_listing_(add|attributes)", "within a call that has been asked already"),
    (r"stk_(dataset|device)_(self|get_info|null_mask)", "reads what creation fixed"),
    (r"stk_dataset_ref", "counts up"),
    (r"stk_batch_(count|epoch|step|positions|field|find|get_state)", "reads what nobody writes while it is held"),
    (r"stk_loader_(steps|fields)", "reads what creation fixed"),
    (r"stk_config_\w+", "a table of texts in memory"),
    (r"stk_conversion_(converter|cancel)", "reads a constant; sets an atomic flag"),
    (r"stk_report_(cancel|files|file_at|runs|run_at|grid_settings|grid_setting_at|bars|notes|overlaid)", "sets an atomic flag; reads memory of one thread"),
    (r"stk_bench_cancel", "sets an atomic flag"),
    (r"stk_bench_plan_(count|get|row|judge|summary|saturation)", "reads memory of one thread"),
    (r"stk_tune_(grid|count|point_get|answer_get|reason)", "a table of texts in memory; reads memory of one thread"),
    (r"stk_model_builder_shape", "reads memory of one thread"),
    (r"stk_model_(get_plan|get_layer|set_probe)", "memory of one thread"),
    (r"stk_optimizer_(num_groups|[gs]et_lr|get_state)", "memory of one thread"),
    (r"stk_model_module_model", "reads a pointer"),
    (r"stk_heartbeat_(path|read|clear|beat|receive)", "reads what creation fixed, or a socket; reads and sets atomic numbers"),
    (r"stk_(saver|restorer)_\w+", "lives within one call of a trainer, which is refused"),
    (r"stk_trainer_(set_console|set_profiler|set_accumulate|weights_changed|stop|resume|should_stop)", "sets memory of one thread or atomic flags"),
    (r"stk_trainer_(context|get_options|current_epoch|global_step|metric|metric_at|num_batches|optimizers|log_dir|ckpt_path|"
     r"get_console|get_data|get_info|moment|module_ops|get_bar|"
     r"best_model_path|best_model_score|last_model_path|present_model_path|is_ahead|get_progress|copy_bytes)", "reads memory and atomic numbers"),
    (r"stk_collectives_(strategy|name)", "reads what opening fixed"),
    (r"stk_recipe_(has_item|get_parts)", "a table of texts in memory; reads what creation fixed"),
    (r"stk_profile_(get_action|get_layer|get_batch|file|warmup)", "reads memory of one thread"),
]


def functions(root):
    """(header, line, name) of all public functions that take a handle."""
    texts = {p: re.sub(r"/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m.group()), p.read_text(encoding="utf-8"), flags=re.S)
             for p in sorted((root / "include/stoker").glob("*.h"))}
    handles = set(re.findall(r"typedef struct (stk_\w+) \1;", "".join(texts.values())))
    for path, text in texts.items():
        for m in re.finditer(r"\bSTK_API\b([^;]*?)\b(stk_[a-z]\w*)\(([^;]*)\)\s*;", text):
            if any(name in handles for name in re.findall(r"\b(stk_\w+) \*", m.group(3))):
                yield path.relative_to(root), text.count("\n", 0, m.start(2)) + 1, m.group(2)


def check(root, problem):
    named = set(re.findall(r"\b(?:REFUSED|RETURNS|NOTHING)\(\s*(stk_\w+)", (root / TEST).read_text(encoding="utf-8")))
    used = set()
    for path, line, name in functions(root):
        exempt = next((pattern for pattern, _ in EXEMPT if re.fullmatch(pattern, name)), None)
        used.add(exempt)
        if exempt is None and name not in named:
            problem(path, line, f"{name} takes a handle and is not called in a child by {TEST}; a pure one is exempt in scripts/forks.py")
        elif exempt and name in named:
            problem(path, line, f"{name} is called in a child by {TEST}: take it out of the exemptions of scripts/forks.py")
    for pattern, _ in EXEMPT:
        if pattern not in used:
            problem(Path("scripts/forks.py"), 1, f"no function is exempt by {pattern}")
