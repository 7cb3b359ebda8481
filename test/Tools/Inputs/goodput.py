"""goodput.py PLAIN GOODPUT: recomputes a prediction's goodput by hand."""
import json
import math
import sys

plain, run = (json.load(open(name)) for name in sys.argv[1:])
assert "goodput" not in plain
for key in plain:
    assert plain[key] == run[key], key
g = run["goodput"]
gpus, step = run["gpus"], run["step_time_seconds"]
assert math.isclose(g["failures_per_day"], 0.001 * gpus)
between = 86400 / g["failures_per_day"]
assert math.isclose(g["mean_time_between_failures_seconds"], between)
stall = g["checkpoint_bytes"] / 100e9
assert math.isclose(g["checkpoint_stall_seconds"], stall)
assert math.isclose(g["shared"]["interval_seconds"],
                    math.sqrt(2 * stall * between))
lost = math.sqrt(2 * stall / between) + (600 + stall) / between
assert math.isclose(g["useful_share"], 1 - lost)
tokens = run["parallel"]["global_batch"] * run["parallel"]["sequence"] / step
assert math.isclose(g["tokens_per_day"], tokens * 86400 * (1 - lost))
assert math.isclose(g["days"], 15e12 / g["tokens_per_day"])
assert math.isclose(g["gpu_hours"], g["days"] * 24 * gpus)
assert math.isclose(g["money"], 2 * g["gpu_hours"])
assert math.isclose(g["data_bytes_per_second"], 4 * tokens)
