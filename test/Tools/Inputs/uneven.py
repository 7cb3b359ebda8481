"""uneven.py PLAN OUT: PLAN, whose stages differ, with as many layers on each."""
import json
import sys

with open(sys.argv[1]) as file:
    plan = json.load(file)
stages = plan["stages"]
layers = [[run for run in stage["runs"] if run[0] not in ("embed", "head")] for stage in stages]
counts = [sum(run[1] for run in runs) for runs in layers]
if len(set(counts)) == 1:
    sys.exit("expected stages with different numbers of layers, but got %s" % counts)
each = sum(counts) // len(stages)
for stage, runs in zip(stages, layers):
    kind, recompute = runs[0][0], runs[0][2]
    at = stage["runs"].index(runs[0])
    stage["runs"] = [run for run in stage["runs"] if run not in runs]
    stage["runs"].insert(at, [kind, each, recompute])
with open(sys.argv[2], "w") as file:
    json.dump(plan, file)
