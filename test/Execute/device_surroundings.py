#!/usr/bin/env python3
"""The script for a machine with a GPU on machines that lack this or that.

Toolkits are made up here: a compiler in PATH that is a wrapper in a folder of its
own, headers where only nvcc, the environment, a distribution or Python knows of
them, no headers, no nvcc. What is missing must be said in one line, by the script
as by the test that needs the same things; steps without their program too.
"""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import device_script
from device_script import device

SCRIPT = device_script.ROOT / "test" / "device" / "run.py"


def fill(folder, names=device.HEADERS):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return str(folder)


class Surroundings(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.tools = self.root / "tools"
        self.tools.mkdir()
        # Nothing of this machine's own: each test adds what it is about.
        for patch in (unittest.mock.patch.dict(os.environ, {"PATH": str(self.tools)}),
                      unittest.mock.patch.object(device, "USUAL_INCLUDES", ()),
                      unittest.mock.patch.object(sys, "path", [])):
            patch.start()
            self.addCleanup(patch.stop)
        for name in ("CUDA_HOME", "CUDA_PATH"):
            os.environ.pop(name, None)

    def nvcc(self, says=""):
        """A wrapper that says of its toolkit what nvcc does, and nothing else."""
        path = self.tools / "nvcc"
        path.write_text("#!/bin/sh\n[ \"$1\" = --dryrun ] && /bin/cat >&2 <<'END'\n"
                        "%s\nEND\n" % says)
        path.chmod(0o755)
        return str(path)

    def test_nvcc_names_its_top(self):
        want = fill(self.root / "cuda" / "include")
        nvcc = self.nvcc("#$ _SPACE_= \n#$ TOP=%s/cuda/bin/..\n#$ CUDAFE_FLAGS=" % self.root)
        self.assertEqual(device.find_headers(nvcc), [want])

    def test_nvcc_names_its_includes(self):
        want = fill(self.root / "my cuda" / "include")
        nvcc = self.nvcc('#$ INCLUDES="-I%s/my cuda/bin/../include"  ' % self.root)
        self.assertEqual(device.find_headers(nvcc), [want])

    def test_link_into_a_toolkit(self):
        want = fill(self.root / "cuda" / "include")
        (self.root / "cuda" / "bin").mkdir()
        pathlib.Path(self.nvcc()).rename(self.root / "cuda" / "bin" / "nvcc")
        (self.tools / "nvcc").symlink_to(self.root / "cuda" / "bin" / "nvcc")
        self.assertEqual(device.find_headers(device.find_nvcc()), [want])

    def test_environment_names_a_toolkit(self):
        want = fill(self.root / "cuda" / "include")
        for name in ("CUDA_HOME", "CUDA_PATH"):
            with unittest.mock.patch.dict(os.environ, {name: str(self.root / "cuda")}):
                self.assertEqual(device.find_headers(self.nvcc()), [want])

    def test_usual_folders_and_python_add_what_the_toolkit_lacks(self):
        cuda = fill(self.root / "cuda" / "include", ["cuda.h", "cublasLt.h"])
        dist = fill(self.root / "usr" / "include", ["cuda.h", "cudnn.h"])
        python = fill(self.root / "site" / "nvidia" / "nccl" / "include", ["nccl.h"])
        nvcc = self.nvcc("#$ TOP=%s" % (self.root / "cuda"))
        with unittest.mock.patch.object(device, "USUAL_INCLUDES", (dist,)), \
                unittest.mock.patch.object(sys, "path", [str(self.root / "site")]):
            self.assertEqual(device.find_headers(nvcc), [cuda, dist, python])

    def test_missing_headers_are_named_with_the_places(self):
        cuda = fill(self.root / "cuda" / "include", ["cuda.h"])
        with self.assertRaises(device.Stop) as stop:
            device.find_headers(self.nvcc("#$ TOP=%s" % (self.root / "cuda")))
        self.assertEqual(stop.exception.code, 3)
        self.assertIn("expected cublasLt.h, cudnn.h, nccl.h among", str(stop.exception))
        self.assertIn(cuda, str(stop.exception))

    def test_wrapper_around_nothing(self):
        path = self.tools / "nvcc"
        path.write_text("#!/no/such/interpreter\n")
        path.chmod(0o755)
        with self.assertRaises(device.Stop):
            device.find_headers(str(path))

    def skips(self, *lines):
        """What the test of the script says where the script finds only what this
        test has made. `lines` change the script further."""
        here = self.root / "device"
        here.mkdir()
        (here / "run.sh").write_text("exec python3 -B '%s/lacks.py' \"$@\"\n" % here)
        (here / "lacks.py").write_text("\n".join([
            "import sys", "sys.path.insert(0, %r)" % str(SCRIPT.parent), "import run",
            "run.USUAL_INCLUDES = ()", *lines, "sys.path[:] = []", "sys.exit(run.main())"]))
        out = io.StringIO()
        arguments = ["--shardwright", "x", "--cxx", "x", "--row-kernels", "x", "--fake", "x",
                     "--work", str(self.root / "work")]
        with unittest.mock.patch.object(sys, "argv", ["device_script.py", *arguments]), \
                unittest.mock.patch.object(device_script, "DEVICE", here), \
                contextlib.redirect_stdout(out):
            self.assertEqual(device_script.main(), 77)
        self.assertEqual(out.getvalue().count("\n"), 1)
        return out.getvalue()

    def test_the_test_skips_without_headers(self):
        self.nvcc()
        self.assertIn("expected cuda.h, cublasLt.h, cudnn.h, nccl.h among", self.skips())

    def test_the_test_skips_without_nvcc(self):
        none = "lambda: run.tool('nvcc', [])"
        with unittest.mock.patch.object(device, "find_nvcc",
                                        lambda: device.tool("nvcc", [])):
            self.assertIn("expected nvcc in PATH", self.skips("run.find_nvcc = " + none))

    def test_times_are_rows_to_calibrate_with(self):
        product = {"what": "matmul", "m": 4096, "n": 8192, "k": 2048, "output": "bf16",
                   "seconds": 0.0005}
        attention = {"what": "attention", "backward": True, "s": 2048, "b": 4, "kv_heads": 8,
                     "group": 4, "d": 128, "seconds": 0.001}
        rows = device.calibration_rows("NVIDIA H200", [product, dict(product, output="f32"),
                                                       attention])
        common = {"source": "test/device", "gpu": "NVIDIA H200", "dtype": "bf16"}
        self.assertEqual(rows, [
            dict(common, us=500.0, kernel="gemm", shape={"m": 4096, "n": 8192, "k": 2048}),
            dict(common, us=1000.0, kernel="attention_3_bwd",
                 shape={"seq": 2048, "batch": 4, "head_dim": 128, "heads": 32, "causal": True})])

    def test_nothing_checked_is_not_passed(self):
        results = self.root / "results.json"
        checks = [name for name in device.STEPS if name != "environment"]
        for skipped in (device.STEPS, checks):
            done = subprocess.run(
                [sys.executable, SCRIPT, "--root", self.root, "--build", self.root / "build",
                 "--out", results, "--skip", ",".join(skipped)],
                text=True, capture_output=True)
            self.assertEqual((done.returncode, done.stderr), (
                2, "error: expected at least one check to run, but all were skipped\n"))
            self.assertIs(json.loads(results.read_text())["passed"], False)

    def steps(self, *arguments, **steps):
        """Runs the script with these steps in this process: its exit code, results."""
        results = self.root / "results.json"
        with unittest.mock.patch.object(device, "STEPS", steps), \
                unittest.mock.patch.object(sys, "argv", [
                    "run.py", "--root", str(self.root), "--build", str(self.root / "build"),
                    "--out", str(results), *arguments]), \
                contextlib.redirect_stdout(io.StringIO()):
            code = device.main()
        found = json.loads(results.read_text())
        return code, {step["step"]: step for step in found["steps"]}, found["passed"]

    def test_a_step_that_breaks_is_a_failed_one(self):
        def breaks(run):
            json.loads("not json")
        code, steps, passed = self.steps(
            one=breaks, two=lambda run: run.record("two", "passed"))
        self.assertEqual((code, passed), (2, False))
        self.assertEqual([step["status"] for step in steps.values()], ["failed", "passed"])
        self.assertIn("JSONDecodeError", steps["one"]["error"])

    def test_three_failures_are_no_missing_gpu(self):
        cts = self.root / "build" / "cts"
        cts.parent.mkdir()
        for says, want in (("echo 3 failed", 2), ("echo error: no driver >&2", 3)):
            cts.write_text("#!/bin/sh\n%s\nexit 3\n" % says)
            cts.chmod(0o755)
            with contextlib.redirect_stderr(io.StringIO()):
                code, steps, _ = self.steps(
                    conformance_1=lambda run: device.conformance(run, 1))
            self.assertEqual((code, steps["conformance_1"]["status"]), (want, "failed"))

    def test_what_does_not_end_is_ended(self):
        """With all that it started; what it said counts, and the rest is recorded."""
        child = self.root / "child"

        def slow(run):
            code, out, err, _ = run.shell(
                ["/bin/sh", "-c", "/bin/sleep 60 & echo $! > %s; echo said; wait" % child])
            run.record("slow", "failed" if code else "passed", said=out, error=err)

        def late(run):
            code, _, err, _ = run.shell(["/bin/true"])
            run.record("late", "failed" if code else "passed", error=err)
        code, steps, _ = self.steps("--seconds", "1", slow=slow, late=late)
        self.assertEqual(code, 2)
        self.assertEqual(steps["slow"]["said"], "said\n")
        self.assertIn("did not end within 1 s", steps["slow"]["error"])
        self.assertIn("did not begin", steps["late"]["error"])
        stat = pathlib.Path("/proc/%s/stat" % child.read_text().strip())
        self.assertTrue(not stat.exists() or stat.read_text().split()[2] == "Z")

    def test_steps_without_their_program(self):
        """Nothing is built, all objects are there: every step fails with a line."""
        results = self.root / "results.json"
        (self.root / "rows").mkdir()
        (self.root / "objects").mkdir()
        for name in ("tiny.cuda.bf16.dp2", "tiny.cuda.f32.tp2", "125m.cuda.bf16", "1b.cuda.bf16"):
            (self.root / "objects" / (name + ".o")).touch()
        done = subprocess.run(
            [sys.executable, SCRIPT, "--root", self.root, "--build", self.root / "build",
             "--out", results, "--skip", "environment,toolkit,build"],
            text=True, capture_output=True)
        self.assertEqual((done.returncode, done.stderr), (2, ""))
        steps = {step["step"]: step for step in json.loads(results.read_text())["steps"]}
        for name in ("environment", "toolkit", "build"):
            self.assertEqual(steps.pop(name)["status"], "skipped")
        self.assertEqual(len(steps), 10)
        for name, step in steps.items():
            self.assertEqual(step["status"], "failed", name)
            self.assertIn("which step build makes, but it is not there", step["error"])
            self.assertIn("%s: failed: %s\n" % (name, step["error"]), done.stdout)


if __name__ == "__main__":
    unittest.main()
