"""schedules.py PREFIX: holds the predictions of one plan under every schedule
to one another."""
import json
import sys

kinds = ["1f1b", "interleaved", "zb-h1", "zb-2p", "zb-v", "dualpipe",
         "dualpipe-v"]
runs = {kind: json.load(open(f"{sys.argv[1]}.{kind}.json")) for kind in kinds}
for kind, run in runs.items():
    assert run["parallel"]["schedule"] == kind
    terms = run["terms"]
    assert all(value >= 0 for value in terms.values()), (kind, terms)
    assert abs(sum(terms.values()) - run["step_time_seconds"]) \
        < 1e-9 * run["step_time_seconds"], kind
    assert len(run["memory"]) == 4 and len(run["ledger"]) == 4, kind
bubble = {kind: run["terms"]["pp_bubble"] for kind, run in runs.items()}
for kind in kinds[1:]:
    assert bubble[kind] < bubble["1f1b"], (kind, bubble)
saved = {kind: [rank["parts"]["saved"] for rank in run["memory"]]
         for kind, run in runs.items()}
assert saved["1f1b"] == sorted(saved["1f1b"], reverse=True)
assert saved["interleaved"][0] > saved["1f1b"][0]
assert saved["zb-2p"][1] > 1.5 * saved["zb-h1"][1]
# Both of a rank's directions hold a stage of the model.
state = {kind: sum(rank["parts"]["parameters"] for rank in run["memory"])
         for kind, run in runs.items()}
assert state["dualpipe"] == 2 * state["1f1b"]
assert state["zb-v"] == state["1f1b"] == state["interleaved"]
flops = {kind: sum(stage["flops"]["forward"] for stage in run["ledger"])
         for kind, run in runs.items()}
assert len(set(flops.values())) == 1, flops
