#!/usr/bin/env python3
"""A sharded bf16 run must be as good as an unsharded one.

For each plan: train three steps with parameters and activations in bf16 and
sums and master copies in f32, and measure how far the gradients of the last
step and the parameters after it are from those of one rank in f32, over all
tensors together. One rank in bf16 is as far as rounding makes it; many ranks
round elsewhere and may be twice as far. The three ledgers must be equal, as
bytes of bf16.

So for gradients that are kept and summed in bf16. There the same plan with f32
gradients says more: after one step both have the same parameters, so gradients
differ by their own roundings alone, one per microbatch and per sum of two ranks,
and the bytes of their reductions and of their memory are half.

  bf16.py --shardwright BIN --work DIR [--jobs N]
"""
import argparse
import concurrent.futures
import math
import pathlib
import sys

import parity
import plans
import tensors

STEPS = 3
MODELS = ["llama-tiny", "gpt2-tiny", "gemma2-tiny"]


def distance(reference, found, prefix):
    """Relative to all tensors under `prefix`."""
    names = [name for name in reference if name.startswith(prefix)]
    if not names or set(names) != {name for name in found if name.startswith(prefix)}:
        raise parity.Broken("expected the same %s tensors" % prefix)
    apart = math.hypot(*(math.dist(reference[name], found[name]) for name in names))
    return apart / math.hypot(*(tensors.norm(reference[name]) for name in names))


def distances(reference, run):
    result = {prefix: distance(reference[1], run[1], prefix) for prefix in ("grad:", "param:")}
    result["loss"] = max(abs(expected["loss"] - got["loss"]) / expected["loss"]
                         for expected, got in zip(reference[0], run[0], strict=True))
    return result


def check(model, reference, alone, plan):
    run = model.train(model.compile(plan), parity.ranks_of(plan), steps=STEPS)
    problems = []
    found = distances(reference, run)
    for what in ("grad:", "param:"):
        if not found[what] <= 2 * alone[what]:
            problems.append("%s expected a distance of at most 2 x %.3g, but got %.3g" % (
                what, alone[what], found[what]))
    # A loss is one number, whose rounding may cancel: twice that of an element.
    if not found["loss"] <= 2 * max(alone["loss"], 2 ** -9):
        problems.append("loss is %.3g away" % found["loss"])
    for key in ("ledger_equals_prediction", "ledger_equal_on_ranks_of_a_stage",
                "ledger_equal_in_all_steps"):
        if run[2][key] is not True:
            problems.append("expected %s to be true" % key)
    return found, problems


def bytes_of_gradients(summary):
    """Per stage, what every reduction of gradients hands in and what they take."""
    return [{"memory": stage["memory"]["gradients_bytes"],
             **{(entry["collective"], entry["axis"]): entry["payload_bytes"]
                for entry in stage["collectives"] if entry["phase"] == "reduce"}}
            for stage in summary["ledger"]]


def gradients_differ_by_rounding(model, fields):
    """Problems of a plan with gradients in bf16 beside that with f32."""
    runs, problems = {}, []
    for gradients in ("f32", "bf16"):
        plan = plans.plan(model.facts, batch=parity.BATCH, dtype="bf16", gradients=gradients,
                          **fields)
        runs[gradients] = model.train(model.compile(plan), parity.ranks_of(plan), steps=1)
    apart = distance(runs["f32"][1], runs["bf16"][1], "grad:")
    parallel, batch = plan["parallel"], plan["batch"]
    microbatches = batch["global"] // (parallel["dp"] * batch["micro"])
    # A matrix is rounded once a microbatch and once per further data rank; the
    # gradients of norms are summed over tensor ranks too, tied ones over stages.
    roundings = microbatches + parallel["dp"] - 1 + parallel["tp"] - 1 + parallel["pp"] - 1
    # Each is at most 2^-9 of an element, in some direction.
    if not 2 ** -11 < apart < math.sqrt(roundings) * 2 ** -8:
        problems.append("expected gradients to be %d roundings apart, but got %.3g" % (
            roundings, apart))
    wide, narrow = (bytes_of_gradients(runs[gradients][2]) for gradients in ("f32", "bf16"))
    if wide != [{key: 2 * count for key, count in stage.items()} for stage in narrow]:
        problems.append("expected half of the bytes %s, but got %s" % (wide, narrow))
    if (len(narrow[0]) > 1) != (parity.ranks_of(plan) > parallel["pp"]):
        problems.append("expected reductions, but got %s" % narrow)
    return apart, problems


def check_all(model, reference, alone, gradients, fields):
    plan = plans.plan(model.facts, batch=parity.BATCH, dtype="bf16", gradients=gradients,
                      **fields)
    found, problems = check(model, reference, alone, plan)
    if gradients:
        found["beside f32"], more = gradients_differ_by_rounding(model, fields)
        problems += more
    return found, problems


# (gradients, a plan's fields); None: those of bf16 plans, f32.
PLANS = [(None, {"dp": 2, "zero": 1}), (None, {"tp": 2}),
         (None, {"tp": 2, "sp": True, "recompute": "full"}), (None, {"pp": 2, "micro": 2}),
         (None, {"pp": 2, "vp": 2, "dp": 2, "zero": 1}),
         (None, {"dp": 2, "tp": 2, "pp": 2, "sp": True, "zero": 1, "recompute": "selective"}),
         ("bf16", {"micro": 8}), ("bf16", {"micro": 1}), ("bf16", {"dp": 2, "micro": 2}),
         ("bf16", {"dp": 4, "zero": 1}), ("bf16", {"tp": 2, "sp": True, "micro": 4}),
         ("bf16", {"dp": 2, "tp": 2, "pp": 2, "sp": True, "zero": 1, "recompute": "full"})]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    failed = count = 0
    for name in MODELS:
        model = parity.Model(arguments.shardwright, name, arguments.work)
        batch = parity.BATCH

        def alone(dtype):
            plan = plans.plan(model.facts, micro=batch, batch=batch, dtype=dtype)
            return model.train(model.compile(plan), 1, steps=STEPS)

        reference = alone("f32")
        narrow = distances(reference, alone("bf16"))
        # It must be bf16 that is measured, and training that works in it.
        if not 2 ** -11 < narrow["grad:"] < 0.1:
            failed += 1
            print("%s alone: expected rounding of bf16, but got %s" % (name, narrow))
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            runs = []
            for gradients, fields in PLANS:
                what = "%s, gradients in %s" % (fields, gradients or "f32")
                runs.append((what, pool.submit(check_all, model, reference, narrow, gradients,
                                               fields)))
            for what, future in runs:
                count += 1
                try:
                    found, problems = future.result()
                except (parity.Broken, ValueError, KeyError, OSError) as error:
                    found, problems = {}, [str(error)]
                print("%s %s: %s of %s" % (name, what, found, narrow))
                if problems:
                    failed += 1
                    print("  " + "\n  ".join(problems), flush=True)
    print("bf16: %d plans, %d failed" % (count, failed))
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
