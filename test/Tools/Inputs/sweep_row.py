"""sweep_row.py MODEL CSV FIELD=VALUE: the one row of a sweep has the value, and names a
whole plan: `predict` takes its columns as flags and says the same time and memory."""
import csv
import json
import subprocess
import sys

(row,) = csv.DictReader(open(sys.argv[2]))
field, value = sys.argv[3].split("=")
assert row[field] == value, row
flags = {"--cluster": "cluster", "--gpus": "gpus", "--sequence": "sequence",
         "--global-batch": "global_batch", "--tp": "tp", "--pp": "pp", "--dp": "dp", "--cp": "cp",
         "--zero": "zero", "--micro-batch": "microbatch", "--schedule": "schedule",
         "--chunks": "vp", "--layers": "layers_per_stage"}
command = ["shardwright", "predict", sys.argv[1], "--json"]
for flag, column in flags.items():
    command += [flag, row[column]]
if row["cp"] != "1":
    command += ["--cp-kind", row["cp_kind"]]
if row["sp"] == "true":
    command += ["--sp"]
if row["microbatch_group"] != "0":
    command += ["--microbatch-group", row["microbatch_group"]]
policy = row["recompute"]
if policy.startswith("full:"):
    policy = "full:" + row["recompute_layers_per_stage"]
command += ["--recompute", policy]
answer = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
assert float(row["step_time_seconds"]) == \
    float(f"{answer['step_time_seconds']:.6g}"), (row, answer["step_time_seconds"])
assert int(row["memory_bytes_per_rank_max"]) == answer["memory_bytes_per_rank_max"]
