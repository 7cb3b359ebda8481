#!/usr/bin/env python3
"""Programs for a GPU train as those for the host do, on fake libraries.

The program's own device code runs thread by thread on the CPU, with the
runtime's kernels, on streams that run as late or as early as events allow;
products are three loops and NCCL is threads that meet. From the second step on a
recorded step is replayed. It shows that functions, kernels, streams, recordings
and collectives of a whole program fit together, and nothing about a GPU.

  fake_gpu.py --shardwright BIN --work DIR --cxx CXX --host-kernels BIN --fake LIB
              [--jobs N]
"""
import argparse
import concurrent.futures
import pathlib
import sys

import bf16
import parity
import plans

STEPS = 3
# Both compute in f32, with sums in other orders, over three steps.
F32 = 1e-4


def libraries(folder, fake):
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("libcuda.so.1", "libcublasLt.so.13", "libcudnn.so.9", "libnccl.so.2"):
        path = folder / name
        path.unlink(missing_ok=True)
        path.symlink_to(fake)
    return folder


def program(model, plan, arguments):
    """The program for a GPU, and its device code for the fake one."""
    path = model.path(plan, ".plan.json")
    executable = model.path(plan, ".cuda.exe")
    lowered, kernels = model.path(plan, ".rt.mlir"), model.path(plan, ".kernels.so")
    model.compile(plan)
    common = [arguments.shardwright, "compile", model.config, "--plan", path, "--target", "cuda",
              "--gpu-arch", "sm_80"]
    parity.run([*common, "-o", executable])
    parity.run([*common, "--emit", "rt", "-o", lowered])
    parity.run([arguments.host_kernels, lowered, kernels.with_suffix(".o")])
    parity.run([arguments.cxx, "-shared", "-o", kernels, kernels.with_suffix(".o"),
                arguments.fake, "-lmvec", "-lm", "-Wl,-rpath," + str(arguments.fake.parent)])
    return executable, kernels


def check(model, plan, dtype, order, alone, reference, arguments):
    executable, kernels = program(model, plan, arguments)
    ranks = parity.ranks_of(plan)
    environment = {"LD_LIBRARY_PATH": str(arguments.work / "fake"), "CUDA_HOME": "",
                   "FAKE_KERNELS": str(kernels), "FAKE_DEVICES": str(ranks)}
    if order:
        environment["FAKE_ORDER"] = order
    run = model.train(executable, ranks, steps=STEPS, environment=environment)
    found, problems = bf16.distances(reference, run), []
    for what in ("grad:", "param:"):
        limit = 2 * alone[what] if dtype == "bf16" else F32
        if not found[what] <= limit:
            problems.append("%s expected a distance of at most %.3g, but got %.3g" % (
                what, limit, found[what]))
    summary = run[2]
    for key in ("ledger_equals_prediction", "ledger_equal_on_ranks_of_a_stage",
                "ledger_equal_in_all_steps"):
        if summary[key] is not True:
            problems.append("expected %s to be true" % key)
    for rank in summary["per_rank"]:
        device = rank["device"]
        if device["recorded_steps"] != 1 or device["attention_calls_by_own_kernels"] < 1:
            problems.append("expected a recorded step with attention, but got %s" % device)
        if (device["nccl_calls"] > 0) != (ranks > 1):
            problems.append("expected NCCL to be called by several ranks, but got %s" % device)
    return found, problems


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--host-kernels", required=True)
    parser.add_argument("--fake", required=True, type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    libraries(arguments.work / "fake", arguments.fake)
    failed = count = 0
    for name in ("llama-tiny", "gpt2-tiny"):
        model = parity.Model(arguments.shardwright, name, arguments.work)
        batch = 4
        chunks = [model.facts["layers"] - 2, 1, 1, 0]

        def host(dtype):
            plan = plans.plan(model.facts, micro=batch, batch=batch, dtype=dtype)
            return model.train(model.compile(plan), 1, steps=STEPS)

        reference = host("f32")
        alone = bf16.distances(reference, host("bf16"))
        todo = [("f32", None, {"micro": 2}), ("bf16", "compute", {"dp": 2, "zero": 1}),
                ("bf16", "communication", {"dp": 2, "tp": 2, "zero": 1, "gradients": "bf16"}),
                ("bf16", "compute", {"micro": 2, "gradients": "bf16"}),
                ("f32", "communication", {"tp": 2, "sp": True, "micro": 2}),
                ("bf16", "compute", {"pp": 2, "micro": 2}),
                ("f32", "compute", {"pp": 2, "vp": 2, "layers": chunks, "tp": 2}),
                ("bf16", "communication", {"pp": 2, "vp": 2, "layers": chunks, "dp": 2,
                                           "zero": 1}),
                ("f32", "compute", {"dp": 2, "tp": 2, "pp": 2, "sp": True, "zero": 1,
                                    "recompute": "selective"})]
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            runs = []
            for dtype, order, fields in todo:
                plan = plans.plan(model.facts, batch=batch, dtype=dtype, **fields)
                runs.append((plan, dtype, order, pool.submit(
                    check, model, plan, dtype, order, alone, reference, arguments)))
            for plan, dtype, order, future in runs:
                count += 1
                try:
                    found, problems = future.result()
                except (parity.Broken, ValueError, KeyError, OSError) as error:
                    found, problems = {}, [str(error)]
                print("%s %s %s, gradients in %s, %s: %s" % (
                    name, plans.describe(plan), dtype, plan["dtypes"]["grad"],
                    order or "at once", found))
                if problems:
                    failed += 1
                    print("  " + "\n  ".join(problems), flush=True)
    print("fake GPU: %d plans, %d failed" % (count, failed))
    return 1 if failed or not count else 0


if __name__ == "__main__":
    sys.exit(main())
