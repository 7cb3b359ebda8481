"""fit_changes.py ANSWER: whether changes that `explain --json` lists for a plan that does
not fit are what it says: those that fit, fastest first, apart from those that do not, and
of combinations (kinds joined by " + ") more kinds are faster than fewer."""
import json
import sys

answer = json.load(open(sys.argv[1]))
fitting = answer["changes_that_fit"]
assert all(change["fits"] for change in fitting)
others = answer["changes_that_do_not_fit"]
assert others and not any(change["fits"] for change in others)
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
