#!/usr/bin/env python3
"""The one-rank program against PyTorch's own numbers (test/golden).

Losses and gradient norms of five steps, and per tensor the norm and sampled
elements of the first step's gradient, which reference.py recorded in f64 with
an independent implementation of the models.

  golden.py --shardwright BIN --work DIR [--model NAME ...]
"""
import argparse
import json
import os
import pathlib
import sys

import parity
import plans
import tensors

TOLERANCE = {"f64": 1e-9, "f32": 1e-4}
# Adam divides a gradient by its own size, and so magnifies its rounding, which
# comes from all of the backward pass. Tensors whose first gradient is below this
# part of the largest one (key biases: softmax does not see them) are compared by
# their gradients only.
SMALL = {"f64": 1e-9, "f32": 3e-4}


def far(expected, got, scale, tolerance):
    return not abs(expected - got) <= tolerance * max(abs(expected), scale)


def check(model, golden, dtype):
    run = golden["run"]
    plan = plans.plan(model.facts, micro=run["global_batch"], batch=run["global_batch"], dtype=dtype)
    path = model.work / ("golden-%s.plan.json" % dtype)
    path.write_text(json.dumps(plan))
    program, dump = model.work / ("golden-%s.exe" % dtype), model.work / "golden.safetensors"
    parity.run([model.shardwright, "compile", model.config, "--plan", path, "-o", program])
    flags = ["--ranks", 1, "--data", parity.GOLDEN / run["data"], "--seed", run["seed"],
             "--lr", run["learning_rate"], "--beta1", run["beta1"], "--beta2", run["beta2"],
             "--eps", run["eps"], "--weight-decay", run["weight_decay"], "--clip", run["clip"],
             "--json"]
    environment = dict(os.environ, OPENBLAS_NUM_THREADS="1")
    text = parity.run([program, "--steps", run["steps"], "--dump", dump] + flags, env=environment)
    steps = [json.loads(line) for line in text.splitlines()][:-1]
    tolerance, problems = TOLERANCE[dtype], []
    for key, name in (("losses", "loss"), ("grad_norms", "grad_norm")):
        for expected, step in zip(golden[key], steps, strict=True):
            if far(expected, step[name], 0, tolerance):
                problems.append("step %d: expected %s %.12g, but got %.12g" % (
                    step["step"], name, expected, step[name]))
    largest = max(facts["grad_norm"] for facts in golden["tensors"].values())
    steady = {name for name, facts in golden["tensors"].items()
              if facts["grad_norm"] >= SMALL[dtype] * largest}
    problems += compare(dump, golden, "param:", "final", tolerance, steady)
    parity.run([program, "--steps", 1, "--dump", dump] + flags, env=environment)
    return problems + compare(dump, golden, "grad:", "grad", tolerance)


def compare(dump, golden, prefix, key, tolerance, among=None):
    """Norm and sampled elements of every tensor under `prefix`, or of `among`."""
    found = {name[len(prefix):]: values for name, values in tensors.read(dump).items()
             if name.startswith(prefix)}
    if set(found) != set(golden["tensors"]):
        return ["tensors differ in name: %s" % sorted(set(found) ^ set(golden["tensors"]))[:4]]
    floor = 1e-6 * max(facts[key + "_norm"] for facts in golden["tensors"].values())
    problems = []
    for name, facts in golden["tensors"].items():
        if among is not None and name not in among:
            continue
        norm = tensors.norm(found[name])
        if far(facts[key + "_norm"], norm, floor, tolerance):
            problems.append("%s%s: expected norm %.12g, but got %.12g" % (
                prefix, name, facts[key + "_norm"], norm))
        for index, value in facts[key]:
            if far(value, found[name][index], max(facts[key + "_norm"], floor), tolerance):
                problems.append("%s%s[%d]: expected %.12g, but got %.12g" % (
                    prefix, name, index, value, found[name][index]))
    return problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--model", action="append")
    arguments = parser.parse_args()
    failed = 0
    names = arguments.model or sorted(
        path.parent.name for path in parity.GOLDEN.glob("*/golden.json"))
    for name in names:
        golden = json.loads((parity.GOLDEN / name / "golden.json").read_text())
        model = parity.Model(arguments.shardwright, name, arguments.work)
        for dtype in ("f64", "f32"):
            problems = check(model, golden, dtype)
            print("%s %s: %s" % (name, dtype, "equals PyTorch" if not problems
                                 else "\n  ".join(["differs"] + problems[:8])))
            failed += bool(problems)
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
