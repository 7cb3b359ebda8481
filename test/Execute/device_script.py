#!/usr/bin/env python3
"""The script for a machine with a GPU, as far as it goes without one.

Packs the folder for such a machine, builds there what it builds, with neither
LLVM nor the build tree in reach, and runs the generated kernels on the fake
driver against their f64 references. Then without any driver: it must say so.

  device_script.py --shardwright BIN --work DIR --cxx CXX --row-kernels BIN --fake LIB
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys

import fake_gpu
import parity

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEVICE = ROOT / "test" / "device"
sys.path.append(str(DEVICE))
import run as device  # noqa: E402  (its folder is known only now)


def script(folder, work, skip, **environment):
    """Runs the script that lies in `folder`, where there is neither LLVM nor what
    this process has: with the tools and the Python of the system. Its end, steps."""
    results = work / "results.json"
    results.unlink(missing_ok=True)
    try:
        tools = [os.path.dirname(device.find_nvcc())]
    except device.Stop:
        tools = []  # that will be said by the script
    # Libraries are looked for in CUDA_HOME, before the fake ones; headers in both.
    cuda = os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH") or ""
    done = subprocess.run(
        ["sh", folder / "run.sh", "--build", work / "build", "--out", results,
         "--skip", ",".join(skip)], cwd=work, text=True, capture_output=True,
        env={"PATH": os.pathsep.join([*tools, "/usr/bin", "/bin"]), "HOME": "/",
             "CUDA_PATH": cuda, **environment})
    steps = json.loads(results.read_text())["steps"] if results.exists() else []
    return done, {step["step"]: step for step in steps}


def lacking(work):
    """Why the script cannot build on this machine; "" if it can."""
    done, steps = script(DEVICE, work, [step for step in device.STEPS if step != "toolkit"])
    if done.returncode == 3 and steps["toolkit"]["status"] == "failed":
        return steps["toolkit"]["error"]
    return ""


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--cxx", required=True)
    parser.add_argument("--row-kernels", required=True)
    parser.add_argument("--fake", required=True, type=pathlib.Path)
    arguments = parser.parse_args()
    shutil.rmtree(arguments.work, ignore_errors=True)
    arguments.work.mkdir(parents=True)
    if why := lacking(arguments.work):
        print("device script: skipped, since the script cannot build here: %s" % why)
        return 77  # CTest: skipped
    bundle = arguments.work / "bundle"
    parity.run([ROOT / "test" / "device" / "pack.sh", arguments.shardwright, bundle])
    kernels = arguments.work / "rows.so"
    parity.run([arguments.row_kernels, arguments.work, "host"])
    parity.run([arguments.cxx, "-shared", "-o", kernels, arguments.work / "rows.host.o",
                arguments.fake, "-lmvec", "-lm", "-Wl,-rpath," + str(arguments.fake.parent)])
    fake = fake_gpu.libraries(arguments.work / "fake", arguments.fake)
    packed = bundle / "test" / "device"
    bare = {"LD_LIBRARY_PATH": str(fake)}

    def but(*steps):
        return [step for step in device.STEPS if step not in steps]

    problems = []
    done, steps = script(packed, arguments.work, but("environment", "build", "rows"),
                         FAKE_KERNELS=str(kernels), **bare)
    print(done.stdout, done.stderr, steps.get("rows", {}).get("output"))
    if done.returncode != 0 or steps.get("rows", {}).get("status") != "passed":
        problems.append("expected rows to pass on the fake driver")
        print("\n".join(problems))
        return 1  # nothing is built for what follows
    if steps["rows"]["launches"] < 493:
        problems.append("expected every kernel to be launched, but got %s" % steps["rows"])
    # No kernels: a check that cannot fail would say nothing.
    done, steps = script(packed, arguments.work, but("rows"), **bare)
    if done.returncode != 2 or steps["rows"]["status"] != "failed":
        problems.append("expected rows to fail without kernels, but got %d: %s" % (
            done.returncode, steps))
    if not shutil.which("nvidia-smi"):
        done, _ = script(packed, arguments.work, but("conformance_1"))
        if done.returncode != 3 or "NVIDIA's driver" not in done.stderr:
            problems.append("expected exit code 3 without a driver, but got %d: %s" % (
                done.returncode, done.stderr))
    print("\n".join(problems))
    print("device script: %d problems" % len(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
