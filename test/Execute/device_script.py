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
sys.path.append(str(ROOT / "test" / "device"))
import run as device  # noqa: E402  (its folder is known only now)


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
    try:
        nvcc = device.find_nvcc()
        device.find_headers(nvcc)
    except device.Stop as lacking:
        print("device script: skipped, since the script cannot build here: %s" % lacking)
        return 77  # CTest: skipped
    bundle = arguments.work / "bundle"
    parity.run([ROOT / "test" / "device" / "pack.sh", arguments.shardwright, bundle])
    kernels = arguments.work / "rows.so"
    parity.run([arguments.row_kernels, arguments.work, "host"])
    parity.run([arguments.cxx, "-shared", "-o", kernels, arguments.work / "rows.host.o",
                arguments.fake, "-lmvec", "-lm", "-Wl,-rpath," + str(arguments.fake.parent)])
    fake = fake_gpu.libraries(arguments.work / "fake", arguments.fake)
    path = os.pathsep.join([str(pathlib.Path(nvcc).parent), "/usr/bin", "/bin"])

    def script(skip, **environment):
        results = arguments.work / "results.json"
        done = subprocess.run(
            ["sh", bundle / "test" / "device" / "run.sh", "--build", arguments.work / "build",
             "--out", results, "--skip", skip], cwd=arguments.work, text=True,
            capture_output=True, env={"PATH": path, "HOME": "/", **environment})
        return done, {step["step"]: step for step in json.loads(results.read_text())["steps"]}

    others = "conformance_1,gradients,losses,times,losses_2,conformance_2,conformance_3"
    problems = []
    done, steps = script(others, LD_LIBRARY_PATH=str(fake), CUDA_HOME="",
                         FAKE_KERNELS=str(kernels))
    print(done.stdout, done.stderr, steps.get("rows", {}).get("output"))
    if done.returncode != 0 or steps.get("rows", {}).get("status") != "passed":
        problems.append("expected rows to pass on the fake driver")
        print("\n".join(problems))
        return 1  # nothing is built for what follows
    if steps["rows"]["launches"] < 493:
        problems.append("expected every kernel to be launched, but got %s" % steps["rows"])
    # No kernels: a check that cannot fail would say nothing.
    done, steps = script("build," + others, LD_LIBRARY_PATH=str(fake), CUDA_HOME="")
    if done.returncode != 2 or steps["rows"]["status"] != "failed":
        problems.append("expected rows to fail without kernels, but got %d: %s" % (
            done.returncode, steps))
    if not shutil.which("nvidia-smi"):
        done, _ = script("build,rows,gradients,losses,times,losses_2,conformance_2,conformance_3")
        if done.returncode != 3 or "NVIDIA's driver" not in done.stderr:
            problems.append("expected exit code 3 without a driver, but got %d: %s" % (
                done.returncode, done.stderr))
    print("\n".join(problems))
    print("device script: %d problems" % len(problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
