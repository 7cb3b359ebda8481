"""fit_changes.py ANSWER: whether changes that `explain --json` lists for a plan that does
not fit are what it says: those that fit come first, fastest first, and of combinations
(kinds joined by " + ") more kinds are faster than fewer."""
import json
import sys

changes = json.load(open(sys.argv[1]))["changes_that_fit"]
fitting = [change for change in changes if change["fits"]]
assert changes[:len(fitting)] == fitting
times = [change["step_time_seconds"] for change in fitting]
assert times == sorted(times)
best = {}
for change in fitting:
    assert change["memory_bytes_per_rank_max"] < change["memory_limit_bytes"]
    if "(not in" in change["change"] or "GPUs" in change["change"] or "cp " in change["change"]:
        continue
    kinds = change["change"].count(" + ") + 1
    best[kinds] = min(best.get(kinds, float("inf")), change["step_time_seconds"])
assert max(best) >= 3, best
of_kinds = [best[kinds] for kinds in sorted(best)]
assert of_kinds == sorted(set(of_kinds), reverse=True), best
