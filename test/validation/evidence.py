#!/usr/bin/env python3
"""Prints the tables of cost_model/estimate/EvidenceTable.h from published runs.

    evidence.py SHARDWRIGHT RUNS...

Cells: (cluster, profile, family) with a predicted headline run. Errors:
predicted / measured - 1 of configurations, one vote a source, their 10th and
90th percentile. Pairs: layouts of one model on one cluster whose predicted times
differ by up to half; by what factor the measured ratio misses the predicted one,
one vote a source and one a model in it, 80th percentile. Files that are named
held_out* test intervals and are refused.
"""
import collections
import itertools
import json
import math
import os
import statistics
import subprocess
import sys


def family(row):
    if row["kind"] != "dense":
        return "Experts"
    return "Dense16" if row["precision"] in ("bf16", "fp16") else "Dense8"


def quantile(weighted, share):
    weighted.sort()
    total, reached = sum(weight for _, weight in weighted), 0
    for value, weight in weighted:
        reached += weight
        if reached >= share * total:
            return value
    return weighted[-1][0]


def pairs(rows):
    """[(factor, weight)] and the number of sources."""
    problems = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in rows:
        problems[row["set"], row["problem"]][row["configuration"]].append(
            (row["measured_step_time_seconds"], row["predicted_step_time_seconds"]))
    sources = collections.defaultdict(list)
    for (source, _), layouts in problems.items():
        medians = [[statistics.median(times) for times in zip(*repeats)]
                   for repeats in layouts.values()]
        factors = [math.exp(abs(math.log(p / q * n / m)))
                   for (m, p), (n, q) in itertools.combinations(medians, 2)
                   if 2 / 3 < p / q < 3 / 2]
        if factors:
            sources[source].append(factors)
    return [(factor, 1 / len(of) / len(factors)) for of in sources.values()
            for factors in of for factor in factors], len(sources)


def main():
    for name in sys.argv[2:]:
        if os.path.basename(name).startswith("held_out"):
            sys.exit(f"{name}: held out, so no evidence")
    done = subprocess.run([sys.argv[1], "validate", "--json", *sys.argv[2:]],
                          stdout=subprocess.PIPE, check=True)
    rows = [row for row in json.loads(done.stdout)["rows"]
            if row["headline"] and row.get("relative_error") is not None
            and not row.get("stand_in")]  # another framework's profile
    cells = sorted({(row["cluster"], row["profile"], family(row))
                    for row in rows})
    print("constexpr Cell kCells[] = {")
    for cluster, profile, name in cells:
        print(f'    {{"{cluster}", "{profile}", RunFamily::{name}}},')
    print("};")
    for name in ("Dense16", "Dense8", "Experts"):
        sets = collections.defaultdict(lambda: collections.defaultdict(list))
        for row in rows:
            if family(row) == name:
                sets[row["set"]][row["configuration"]].append(
                    row["relative_error"])
        weighted = [(statistics.median(errors), 1 / len(configurations))
                    for configurations in sets.values()
                    for errors in configurations.values()]
        print(f"// {name}: {len(sets)} sources, {len(weighted)} "
              f"configurations: {quantile(weighted, 0.1):.3f}, "
              f"{quantile(weighted, 0.9):.3f}")
    weighted, sources = pairs(rows)
    print(f"// pairs: {sources} sources, {len(weighted)} pairs: "
          f"{quantile(weighted, 0.8):.2f}")


if __name__ == "__main__":
    main()
