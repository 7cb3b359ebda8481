"""Builds the runtime with g++ and nvcc and runs it on a GPU; see README.md.

usage: run.sh [--root FOLDER] [--build FOLDER] [--out FILE] [--skip STEP,...]
              [--seconds N]

Writes FILE (results.json): {"steps": [...], "passed": true|false}. Exit codes:
0 all passed, 1 the build failed, 2 a check failed, 3 there is no usable GPU or a
tool is missing (one line says which), 5 bad usage.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import time

# Losses of the tiny model in bf16 against f32 on the host: weights, activations
# and gradients carry 8 bits, the loss is a mean over 1,024 tokens.
BF16_LOSS = 0.01
# Gradients of one step, norm-wise per tensor, against f64 on the host.
F32_GRADIENT, BF16_GRADIENT = 1e-3, 0.05


class Stop(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


class Run:
    def __init__(self, arguments):
        self.root = pathlib.Path(arguments.root).resolve()
        self.build = pathlib.Path(arguments.build).resolve()
        self.out = pathlib.Path(arguments.out)
        self.skip = set(filter(None, arguments.skip.split(",")))
        self.end = time.monotonic() + arguments.seconds
        self.steps = []

    def save(self, ended=False):
        """What there is so far; a run that is killed, or has checked nothing, has not passed."""
        passed = (ended and self.checked()
                  and all(step["status"] in ("passed", "skipped") for step in self.steps))
        self.out.write_text(json.dumps({"steps": self.steps, "passed": passed}, indent=1) + "\n")
        return passed

    def checked(self):
        """Whether anything but the machine has been looked at."""
        return any(step["status"] != "skipped" and step["step"] not in PREPARING
                   for step in self.steps)

    def record(self, step, status, **facts):
        self.steps.append({"step": step, "status": status, **facts})
        self.save()
        why = "" if status == "passed" else str(
            facts.get("error") or facts.get("why") or "").strip()
        print(f"{step}: {status}{': ' if why else ''}{why.splitlines()[0] if why else ''}",
              flush=True)
        return status == "passed"

    def shell(self, command, timeout=300, environment=None):
        """Ends what does not end by itself with all that it started, so that nothing
        stays on the GPU; what it said until then counts."""
        start = time.monotonic()
        timeout = min(timeout, self.end - start)
        if timeout <= 0:
            return 124, "", "did not begin, as the time of --seconds was over", 0
        with subprocess.Popen([str(word) for word in command], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              start_new_session=True,
                              env=dict(os.environ, **(environment or {}))) as process:
            try:
                out, err = process.communicate(timeout=timeout)
                code = process.returncode
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                out, err = process.communicate()
                code, err = 124, f"did not end within {timeout:.0f} s\n{err}"
        return code, out, err, time.monotonic() - start

    def start(self, program, *arguments, ranks=1, environment=None):
        """Runs a program of ours, on several ranks as torchrun would; as a shell
        does, 127 says that there is none."""
        path = self.build / program
        if not os.access(path, os.X_OK):
            return 127, "", f"expected {path}, which step build makes, but it is not there", 0
        before, settings = launcher(self, ranks) if ranks > 1 else ([], {})
        return self.shell([*before, path, *arguments],
                          environment={**settings, **(environment or {})})


# ---- Build --------------------------------------------------------------------

HEADERS = ("cuda.h", "cublasLt.h", "cudnn.h", "nccl.h")
# Where toolkits and packages of distributions put headers, after what nvcc says.
USUAL_INCLUDES = ("/usr/local/cuda*/include", "/opt/cuda/include", "/usr/include")


def tool(name, hints=()):
    found = shutil.which(name) or next(
        (hint for hint in hints if os.access(hint, os.X_OK)), None)
    if not found:
        where = "".join(f" or at {hint}" for hint in dict.fromkeys(hints))
        raise Stop(3, f"expected {name} in PATH{where}, but it is not there")
    return found


def toolkits():
    """Folders that the environment calls CUDA's."""
    return [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]


def find_nvcc():
    return tool("nvcc", [os.path.join(folder, "bin", "nvcc")
                         for folder in toolkits() + ["/usr/local/cuda"]])


def include_folders(nvcc):
    """Where CUDA's headers may lie, likeliest first. nvcc is asked for its toolkit:
    the one in PATH may be a link or a wrapper, with no toolkit beside it."""
    try:
        said = subprocess.run([nvcc, "--dryrun", "-x", "cu", "-E", "/dev/null"], text=True,
                              capture_output=True, timeout=60).stderr
    except (OSError, subprocess.TimeoutExpired):
        said = ""
    folders = []
    for line in re.findall(r"^#\$ INCLUDES=(.*)$", said, re.M):
        folders += [word[2:] for word in shlex.split(line) if word.startswith("-I")]
    folders += [os.path.join(top.strip(), "include")
                for top in re.findall(r"^#\$ TOP=(.*)$", said, re.M)]
    folders += [os.path.join(folder, "include") for folder in toolkits()]
    folders.append(str(pathlib.Path(nvcc).resolve().parent.parent / "include"))
    for pattern in USUAL_INCLUDES:
        folders += sorted(glob.glob(pattern), reverse=True)
    # Python packages of NVIDIA's libraries carry their headers.
    for folder in sys.path:
        folders += sorted(glob.glob(os.path.join(folder, "nvidia", "*", "include")))
    return list(dict.fromkeys(os.path.normpath(folder) for folder in folders))


def find_headers(nvcc):
    """Folders that hold all of HEADERS, in the order to search them in."""
    folders = include_folders(nvcc)
    found = {name: next((folder for folder in folders
                         if os.path.exists(os.path.join(folder, name))), None)
             for name in HEADERS}
    missing = [name for name, folder in found.items() if not folder]
    if missing:
        raise Stop(3, f"expected {', '.join(missing)} among CUDA's headers, but looked in vain "
                      f"in {', '.join(folders)} (CUDA_HOME names a toolkit; Python's nvidia "
                      "packages have headers too)")
    return list(dict.fromkeys(found.values()))


def library_folders():
    """Where Python's nvidia packages and the toolkit keep shared libraries."""
    folders = [path for folder in sys.path
               for path in glob.glob(os.path.join(folder, "nvidia", "*", "lib"))]
    return folders + [os.path.join(folder, "lib64")
                      for folder in toolkits() + ["/usr/local/cuda"]]


def find_toolkit():
    """What step build needs of the machine: g++, nvcc, folders of headers."""
    nvcc = find_nvcc()
    return tool("g++"), nvcc, find_headers(nvcc)


def toolkit(run):
    try:
        compiler, nvcc, includes = find_toolkit()
    except Stop as stop:
        run.record("toolkit", "failed", error=str(stop))
        raise
    run.record("toolkit", "passed", gxx=compiler, nvcc=nvcc, includes=includes)


def build(run):
    compiler, nvcc, includes = find_toolkit()
    third = run.root / "include"
    if not (third / "nlohmann" / "json.hpp").exists():
        third = pathlib.Path("/usr/include")
    start = time.monotonic()
    source = run.root / "runtime" / "src"
    kernels = source / "backend" / "cuda" / "Kernels"
    ptx = run.build / "Kernels.ptx"
    code, _, err, _ = run.shell([nvcc, "-ptx", "-arch=compute_80", "-O3", "-std=c++17",
                                 f"-I{run.root}", "-o", ptx, f"{kernels}.cu"])
    if code:
        run.record("build", "failed", error=err[-2000:] or f"{nvcc}: exit code {code}")
        raise Stop(1, f"{nvcc} failed with exit code {code}: " + err.strip()[-500:])
    embedding = (source / "backend" / "cuda" / "OwnKernels.cpp.in").read_text()
    (run.build / "OwnKernels.cpp").write_text(
        embedding.replace("@SHARDWRIGHT_OWN_KERNELS@", str(ptx)))

    # /usr/include is searched anyway; named, it would hide libstdc++'s own wrappers.
    flags = ["-std=c++20", "-O2", f"-I{run.root}", f"-I{run.root}/test/device/blas"] + [
        word for folder in [str(third), *includes] if folder != "/usr/include"
        for word in ("-isystem", folder)]
    library = [path for path in source.rglob("*.cpp")
               if path.name not in ("NoCudaDevice.cpp", "MpiJob.cpp", "MpiLibrary.cpp",
                                    "MpiTransport.cpp")]
    library += [run.root / "test" / "device" / "blas" / "Blas.cpp", run.build / "OwnKernels.cpp"]
    cts = [*(run.root / "runtime" / "cts").glob("*.cpp"),
           run.root / "test" / "unit" / "CatchMain.cpp"]
    bench = [run.root / "test" / "device" / "Bench.cpp"]
    rows = []
    if (run.root / "rows").exists():
        rows = [run.root / "test" / "device" / "RowsOnDevice.cpp",
                run.root / "compiler" / "Codegen" / "RowProgram.cpp"]
        rows += [run.root / "test" / "unit" / "compiler" / name for name in (
            "RowCompare.cpp", "RowMapsTest.cpp", "RowReductionsTest.cpp", "RowUpdateTest.cpp")]
    jobs = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for path in library + cts + bench + rows:
            object_file = run.build / (path.name + "." + path.parent.name + ".o")
            extra = []
            if path.name == "Philox.cpp":
                extra = ["-ffp-contract=off"]
            elif path.parent.name == "compute" or path.name == "Combine.cpp":
                extra = ["-O3", "-fno-math-errno", "-fno-trapping-math"]
            jobs[path] = (object_file, pool.submit(
                run.shell, [compiler, "-c", path, "-o", object_file] + flags + extra))
    for path, (_, job) in jobs.items():
        code, _, err, _ = job.result()
        if code:
            run.record("build", "failed", error=err[-2000:])
            raise Stop(1, f"g++ failed on {path}: " + err.strip()[-500:])
    runtime = [jobs[path][0] for path in library]
    end = ["-lm", "-ldl", "-lpthread"]
    vector = ["-lmvec"]
    programs = {name: [jobs[path][0] for path in paths]
                for name, paths in (("cts", cts), ("bench", bench), ("rows", rows)) if paths}
    for path in sorted((run.root / "objects").glob("*.o")):
        programs[path.name[:-2]] = [path]
    for name, objects in programs.items():
        code, _, err, _ = run.shell([compiler, "-o", run.build / name] + objects + runtime
                                    + vector + end)
        if code:
            run.record("build", "failed", error=err[-2000:])
            raise Stop(1, f"linking {name} failed: " + err.strip()[-500:])
    run.record("build", "passed", seconds=round(time.monotonic() - start, 1),
               programs=sorted(programs))


# ---- Steps --------------------------------------------------------------------

def environment(run):
    facts = {}
    for name, command in (("nvcc", ["nvcc", "--version"]), ("gxx", ["g++", "--version"]),
                          ("gpu", ["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                                   "--format=csv,noheader"])):
        if shutil.which(command[0]):
            code, out, _, _ = run.shell(command)
            if code == 0:
                facts[name] = out.strip().splitlines()[-1 if name == "nvcc" else 0]
    run.record("environment", "passed", python=sys.version.split()[0], **facts)


def reason(code, out, err):
    """In a line, why a test program failed: its error, or the last that it said."""
    said = (err or out).strip().splitlines()
    return next((line for line in said if line.startswith("error: ")),
                said[-1] if said else f"exit code {code}").removeprefix("error: ")


def conformance(run, ranks):
    step = f"conformance_{ranks}"
    code, out, err, seconds = run.start("cts", ranks=ranks,
                                        environment={"SHARDWRIGHT_CTS_DEVICE": "cuda"})
    # Catch ends with the number of failures, which may be 3, too.
    if ranks == 1 and code == 3 and re.search("^error: ", err, re.M):
        run.record(step, "failed", error=reason(code, out, err))
        raise Stop(3, reason(code, out, err))
    facts = {"error": reason(code, out, err)} if code else {}
    run.record(step, "passed" if code == 0 else "failed", seconds=round(seconds, 1),
               output=(out + err)[-4000:], **facts)


def rows(run):
    """Every generated kernel on random inputs, in f32 and bf16, against f64."""
    if not (run.root / "rows").exists():
        return run.record("rows", "skipped", why="its kernels were not carried along")
    code, out, err, seconds = run.start("rows", run.root / "rows")
    launches = [json.loads(line)["launches"] for line in out.splitlines()
                if line.startswith('{"launches"')]
    facts = {"error": reason(code, out, err)} if code else {}
    return run.record("rows", "passed" if code == 0 else "failed", seconds=round(seconds, 1),
                      launches=launches[-1] if launches else 0, output=(out + err)[-4000:],
                      **facts)


def carried(run, program):
    """Whether a compiled program came along; a build makes it runnable."""
    return (run.root / "objects" / (program + ".o")).exists()


def launcher(run, ranks):
    """An experiment: NCCL refuses two ranks of one host on one GPU, so each process
    is told that it is a host."""
    settings = {"SHARDWRIGHT_HOSTID_PER_RANK": "1", "NCCL_NET": "Socket",
                "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0")}
    return [sys.executable, run.root / "runtime" / "cts" / "launch.py", ranks], settings


def device_facts(lines):
    """What the device of rank 0 counted: which attention ran, bytes."""
    return lines[-1].get("summary", {}).get("per_rank", [{}])[0].get("device", {})


def objects(out):
    """One of JSON a line; the last line may be cut."""
    return [json.loads(line) for line in out.splitlines()
            if line.startswith("{") and line.endswith("}")]


def train(run, program, *flags, ranks=1):
    code, out, err, _ = run.start(program, "--json", *flags, ranks=ranks)
    lines = objects(out)
    if code or not lines:
        return None, (err or out).strip()[-2000:]
    return lines, ""


def tensors(path):
    """{name: list of floats} of a safetensors file."""
    data = pathlib.Path(path).read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    result = {}
    for name, entry in header.items():
        first, last = entry["data_offsets"]
        part = data[8 + length + first:8 + length + last]
        kind = {"F64": "d", "F32": "f"}.get(entry["dtype"])
        if kind:
            result[name] = struct.unpack(f"<{len(part) // struct.calcsize(kind)}{kind}", part)
        else:  # bf16: the upper half of an f32
            result[name] = [struct.unpack("<f", b"\0\0" + part[i:i + 2])[0]
                            for i in range(0, len(part), 2)]
    return result


def gradients(run):
    """Every kernel on real data: the gradients of a step against f64."""
    data = ["--data", run.root / "README.md", "--steps", "1"]
    dumps = {}
    limits = {"tiny.cuda.f32": F32_GRADIENT, "tiny.cuda.bf16": BF16_GRADIENT,
              # Also kept and summed in bf16.
              "tiny.cuda.bf16.bf16": BF16_GRADIENT}
    for program in ("tiny.host.f64", *limits):
        dumps[program] = run.build / (program + ".safetensors")
        lines, why = train(run, program, "--dump", dumps[program], *data)
        if not lines:
            return run.record("gradients", "failed", program=program, error=why)
    want = tensors(dumps["tiny.host.f64"])
    total = sum(value * value for name, list_ in want.items() if name.startswith("grad:")
                for value in list_) ** 0.5
    worst = {}
    for program, limit in limits.items():
        got = tensors(dumps[program])
        errors = {}
        for name, values in want.items():
            if not name.startswith("grad:"):
                continue
            difference = sum((a - b) ** 2 for a, b in zip(got[name], values, strict=True)) ** 0.5
            norm = max(sum(b * b for b in values) ** 0.5, 1e-6 * total)
            errors[name] = difference / norm
        name = max(errors, key=errors.get)
        worst[program] = {"tensor": name, "error": errors[name], "limit": limit,
                          # Each: the maximum of a list with a NaN may miss it.
                          "passed": all(e <= limit for e in errors.values())}
    return run.record("gradients",
                      "passed" if all(w["passed"] for w in worst.values())
                      else "failed", worst=worst)


def losses(run):
    """A training run in bf16 follows the host's in f32."""
    flags = ["--data", run.root / "README.md", "--steps", "20", "--lr", "1e-3"]
    curves, devices = {}, {}
    for program in ("tiny.host.f32", "tiny.cuda.f32", "tiny.cuda.bf16", "tiny.cuda.bf16.bf16"):
        lines, why = train(run, program, *flags)
        if not lines:
            return run.record("losses", "failed", program=program, error=why)
        curves[program] = [line["loss"] for line in lines if "loss" in line]
        devices[program] = device_facts(lines)
    want = curves["tiny.host.f32"]
    errors = {program: max(abs(a - b) / b for a, b in zip(curve, want, strict=True))
              for program, curve in curves.items()}
    good = errors["tiny.cuda.f32"] < 1e-3 and errors["tiny.cuda.bf16"] < BF16_LOSS \
        and errors["tiny.cuda.bf16.bf16"] < BF16_LOSS and want[-1] < want[0]
    return run.record("losses", "passed" if good else "failed", errors=errors, losses=curves,
                      devices=devices)


def losses_of_two(run):
    """Two processes on one GPU, data and tensor parallel, as one on the host."""
    flags = ["--data", run.root / "README.md", "--steps", "5", "--lr", "1e-3"]
    lines, why = train(run, "tiny.host.f32", *flags)
    if not lines:
        return run.record("losses_2", "failed", program="tiny.host.f32", error=why)
    want = [line["loss"] for line in lines if "loss" in line]
    errors, devices = {}, {}
    for program in ("tiny.cuda.bf16.dp2", "tiny.cuda.f32.tp2"):
        if not carried(run, program):
            return run.record("losses_2", "skipped", why="its objects were not carried along")
        lines, why = train(run, program, *flags, ranks=2)
        if not lines:
            return run.record("losses_2", "failed", program=program, error=why)
        got = [line["loss"] for line in lines if "loss" in line]
        errors[program] = max(abs(a - b) / b for a, b in zip(got, want, strict=True))
        devices[program] = device_facts(lines)
    good = errors["tiny.cuda.f32.tp2"] < 1e-3 and errors["tiny.cuda.bf16.dp2"] < BF16_LOSS
    return run.record("losses_2", "passed" if good else "failed", errors=errors, devices=devices)


def calibration_rows(gpu, results):
    """What `shardwright calibrate --kernels` reads, of what `bench` printed."""
    rows = []
    for one in results:
        row = {"source": "test/device", "gpu": gpu, "dtype": "bf16", "us": one["seconds"] * 1e6}
        if one["what"] == "matmul" and one["output"] == "bf16":
            rows.append(dict(row, kernel="gemm", shape={key: one[key] for key in "mnk"}))
        elif one["what"] == "attention":
            rows.append(dict(row, kernel="attention_3_" + ("bwd" if one["backward"] else "fwd"),
                             shape={"seq": one["s"], "batch": one["b"], "head_dim": one["d"],
                                    "heads": one["kv_heads"] * one["group"], "causal": True}))
    return rows


def times(run):
    code, out, err, _ = run.start("bench")
    run.record("kernels", "passed" if code == 0 else "failed", results=objects(out),
               error=err.strip())
    gpu = next((step.get("gpu", "") for step in run.steps if step["step"] == "environment"), "")
    if gpu:
        run.out.with_name("kernels.jsonl").write_text("".join(
            json.dumps(row) + "\n"
            for row in calibration_rows(gpu.split(",")[0], objects(out))))
    data = run.build / "tokens.bin"
    generator = random.Random(0)
    data.write_bytes(struct.pack("<200000H", *(generator.randrange(32000)
                                               for _ in range(200000))))
    for program, sequence, batch, micro in (("125m.cuda.bf16", 1024, 32, 16),
                                            ("1b.cuda.bf16", 2048, 16, 4)):
        if not carried(run, program):
            run.record(program, "skipped", why="its object was not carried along")
            continue
        lines, why = train(run, program, "--data", data, "--steps", "12")
        if not lines:
            run.record(program, "failed", error=why)
            continue
        # The first two steps choose algorithms and record.
        seconds = [line["seconds"] for line in lines if "seconds" in line and "step" in line][3:]
        facts = {"step_seconds": statistics.median(seconds),
                 "tokens_per_second": batch * sequence / statistics.median(seconds),
                 "losses": [line["loss"] for line in lines if "step" in line],
                 "device": device_facts(lines)}
        # Heads of 64 and 128 in bf16: cuDNN's business, where cuDNN is.
        good = facts["device"].get("attention_calls_by_cudnn", 0) > 0
        run.record(program, "passed" if good else "failed", **facts)
        for mode in ("eager", "compiled"):
            code, out, err, _ = run.shell(
                [sys.executable, run.root / "test" / "device" / "torch_step.py",
                 run.root / "test" / "device" / "models" / ("llama-" + program.split(".")[0]),
                 sequence, batch, micro, mode])
            said = objects(out)
            run.steps[-1]["torch_" + mode] = said[-1] if code == 0 and said else {
                "error": err.strip()[-1000:]}
            run.save()


# Steps that check nothing of ours.
PREPARING = ("environment", "toolkit", "build")

STEPS = {
    "environment": environment,
    "toolkit": toolkit,
    "build": build,
    "conformance_1": lambda run: conformance(run, 1),
    "rows": rows,
    "gradients": gradients,
    "losses": losses,
    "times": times,
    "losses_2": losses_of_two,
    "conformance_2": lambda run: conformance(run, 2),
    "conformance_3": lambda run: conformance(run, 3),
}


def attempt(run, name):
    """A step that breaks is a failed one: others may still tell something."""
    try:
        STEPS[name](run)
    except Stop:
        raise
    except Exception as broken:  # whatever a program may have said
        run.record(name, "failed", error=f"{type(broken).__name__}: {broken}")


def main():
    here = pathlib.Path(__file__).resolve().parent.parent.parent
    parts = __doc__.split("\n\n")
    parser = argparse.ArgumentParser(
        usage=parts[1].removeprefix("usage: "), epilog=parts[2],
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=str(here), metavar="FOLDER",
                        help="what pack.sh made (the one that this script lies in)")
    parser.add_argument("--build", default="device-build", metavar="FOLDER",
                        help="gets what is built, and the files of the steps (device-build)")
    parser.add_argument("--out", default="results.json", metavar="FILE",
                        help="gets the results (results.json)")
    parser.add_argument("--skip", default="", metavar="STEP,...",
                        help="steps to leave out, of " + ", ".join(STEPS))
    parser.add_argument("--seconds", type=float, default=3600, metavar="N",
                        help="for all steps together: what does not end in time fails (3600)")
    try:
        arguments = parser.parse_args()
    except SystemExit as stop:
        return 5 if stop.code else 0
    run = Run(arguments)
    unknown = run.skip - set(STEPS)
    if unknown:
        print(f"error: expected steps to skip among {', '.join(STEPS)}, but got "
              f"{', '.join(sorted(unknown))}", file=sys.stderr)
        return 5
    try:
        run.build.mkdir(parents=True, exist_ok=True)  # steps leave their files here
        run.save()
    except OSError as refused:
        print(f"error: expected --build and --out to be writable, but got {refused}",
              file=sys.stderr)
        return 5
    folders = os.pathsep.join(library_folders())
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(
        filter(None, [os.environ.get("LD_LIBRARY_PATH"), folders]))
    try:
        for name in STEPS:
            if name in run.skip:
                run.record(name, "skipped", why="asked for")
            else:
                attempt(run, name)
    except Stop as stop:
        run.save()
        print(f"error: {stop}", file=sys.stderr)
        return stop.code
    if not run.checked():
        print("error: expected at least one check to run, but all were skipped",
              file=sys.stderr)
    return 0 if run.save(ended=True) else 2


if __name__ == "__main__":
    sys.exit(main())
