"""Holds `predict --trace` against the prediction it draws.

  trace.py SHARDWRIGHT MODEL TRACE -- FLAGS...
"""
import collections
import json
import subprocess
import sys

shardwright, model, path, _, *flags = sys.argv[1:]
said = json.loads(subprocess.run(
    [shardwright, "predict", model, *flags, "--json", "--trace", path], check=True,
    stdout=subprocess.PIPE).stdout)
parallel, terms = said["parallel"], said["terms"]
trace = json.load(open(path))
assert trace["schema"] == "shardwright.trace/1"
ranks = {event["pid"]: int(event["args"]["name"].split()[-1])
         for event in trace["traceEvents"] if event["name"] == "process_name"}
assert sorted(ranks.values()) == list(range(parallel["pp"]))
spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]


def near(value, wanted, what):
    assert abs(value - wanted) <= 1e-6 * max(abs(wanted), said["step_time_seconds"]), (
        what, value, wanted)


def end(span):
    return span["ts"] + span["dur"]


# It ends when the step does, and nothing of a rank's own overlaps.
near(max(map(end, spans)) / 1e6, said["step_time_seconds"], "end")
for rank in ranks:
    own = sorted((span["ts"], end(span)) for span in spans
                 if span["pid"] == rank and span["tid"] == 0)
    for before, after in zip(own, own[1:]):
        assert after[0] >= before[1] - 0.01, (rank, before, after)

# Every microbatch passes every chunk of every stage, forward before backward.
both = parallel["schedule"] == "dualpipe"  # each rank has chunks of either direction
microbatches = 64 // parallel["dp"] // parallel["microbatch"] // (2 if both else 1)
actions = collections.defaultdict(dict)
for span in spans:
    if span["cat"] == "action":
        key = span["pid"], span["args"]["chunk"], span["args"]["microbatch"]
        assert span["name"] not in actions[key], (span["name"], key)
        actions[key][span["name"]] = span
assert len(actions) == parallel["pp"] * parallel["vp"] * microbatches, len(actions)
for key, own in actions.items():
    assert own["forward"]["ts"] < own["backward_data"]["ts"] < own["backward_weight"]["ts"], key
    assert end(own["forward"]) <= own["backward_data"]["ts"] + 0.01, key

# What is behind the schedule is what the terms say of it; of each name the longest counts.
for name in ("embedding_communication", "optimizer", "parameter_gather", "synchronization",
             "stragglers"):
    longest = max((span["dur"] for span in spans if span["name"] == name), default=0)
    near(longest / 1e6, terms[name], name)
