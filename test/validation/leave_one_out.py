#!/usr/bin/env python3
"""Leaves one source out at a time.

    leave_one_out.py SHARDWRIGHT RUNS... [--kernels FILE] [--collectives FILE]

Curves of kernels and collectives scale with one rate for each device and kind
(sustained_fraction, wire_fraction and the fractions of attention). For every
source of the measured files that rate is fitted again to the other sources (the
median of predicted / measured), and the left-out source is predicted with it.
Rates that move by over 25 % are named.

One constant comes from training runs, the concentration of routing
(cost_model/hardware/Imbalance.h), from Grok-1's rows; the error of every other
source is already that of a source not seen. They are listed for that.

Exit 1 if the median error of a left-out source more than doubles and exceeds
10 %: then the others do not tell about it.
"""
import argparse
import collections
import json
import statistics
import subprocess
import sys

LEAST_ROWS = 5  # of a source, and of the others together
MOVED = 0.25
TOLERATED = 0.10


def run(binary, *arguments):
    done = subprocess.run([binary, "validate", "--json", *arguments],
                          stdout=subprocess.PIPE, check=False)
    if done.returncode != 0:
        sys.exit(f"{binary} validate: exit code {done.returncode}")
    return json.loads(done.stdout)


def error(ratios, scale=1.0):
    return statistics.median(abs(ratio / scale - 1) for ratio in ratios)


def leave_out(report):
    """Prints a line for each group and left-out source; returns failures."""
    ratios = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in report["rows"]:
        if row.get("measured_seconds"):
            # A source is a repository or paper, not a file of it.
            source = row["source"].split()[0].split("@")[0]
            ratios[row["group"]][source].append(
                row["predicted_seconds"] / row["measured_seconds"])
    failures = 0
    for group, sources in sorted(ratios.items()):
        for left_out, own in sorted(sources.items()):
            others = [ratio for source, values in sources.items()
                      if source != left_out for ratio in values]
            if len(own) < LEAST_ROWS or len(others) < LEAST_ROWS:
                continue
            scale = statistics.median(others)
            with_it, without = error(own), error(own, scale)
            failed = without > 2 * with_it and without > TOLERATED
            failures += failed
            print(f"{group:52} {left_out:40} {len(own):4} "
                  f"{with_it:7.1%} {without:7.1%} {scale - 1:+7.1%}"
                  f"{'  moves' if abs(scale - 1) > MOVED else ''}"
                  f"{'  FAILED' if failed else ''}")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shardwright")
    parser.add_argument("runs", nargs="*")
    parser.add_argument("--kernels")
    parser.add_argument("--collectives")
    options = parser.parse_args()
    failures = 0
    for flag in ("kernels", "collectives"):
        file = getattr(options, flag)
        if file:
            print(f"{flag:52} {'left out':40} rows    with without    rate")
            failures += leave_out(run(options.shardwright, f"--{flag}", file))
    if options.runs:
        report = run(options.shardwright, *options.runs)
        print(f"\n{'runs (no constant is fitted to them)':52} "
              f"configurations  median    bias")
        for group in report["groups"]:
            time = group["step_time"]
            if time["configurations"]:
                print(f"{group['name']:52} {time['configurations']:14} "
                      f"{time['median_absolute_error']:7.1%} "
                      f"{time['median_signed_error']:+7.1%}")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
