"""Checks `validate --rank --json`: every configuration that names a whole plan is ranked, legal for
its framework, and never beaten by a plan that is slower than the best."""
import json
import sys

runs = json.load(open(sys.argv[1]))["runs"]
ranked = [run for run in runs if "rank" in run]
assert len(ranked) >= 12, len(ranked)
for run in ranked:
    assert run["rank"] >= 1 and run["considered"] > 100, run
    # A MaxText run is priced with Megatron's habits, but Megatron has no ZeRO 3.
    assert run["broken_rules"] == [] or "maxtext" in run["id"], run
    best, own = run["best_step_time_seconds"], run["predicted_step_time_seconds"]
    # A published plan that does not fit as predicted may be faster than all that do.
    assert own >= best or not run["predicted_fits"] or run["rank"] == 1, run
    if run["rank"] > 1:
        assert own > best, run
for run in runs:
    assert ("rank" in run) != ("not_ranked" in run), run
    if "not_ranked" in run:
        assert run["not_ranked"], run
print(len(ranked), "ranked")
