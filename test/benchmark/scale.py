#!/usr/bin/env python3
"""Time and memory of the tools themselves on large questions.

`plan` for Llama 3 70B on 64 and 1,024 GPUs, and `compile` of models of 2 and of
126 layers, which should cost the same: a kind of layer is compiled once.

  scale.py --shardwright BIN --work DIR [--rounds 3] [--json FILE]
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(HERE.parent / "Execute"))
import plans  # noqa: E402

LLAMA_70B = ROOT / "examples" / "models" / "llama-3-70b"


def timed(command):
    """Wall and CPU seconds and peak memory of a command that must succeed."""
    start = time.perf_counter()
    with tempfile.TemporaryFile(mode="w+") as errors:
        process = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL,
                                   stderr=errors)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            raise SystemExit("%s\nexit code %d\n%s" % (command, process.returncode,
                                                       errors.read()[-2000:]))
    return {"seconds": time.perf_counter() - start, "user_seconds": usage.ru_utime,
            "cpu_seconds": usage.ru_utime + usage.ru_stime,
            "peak_memory_bytes": usage.ru_maxrss * 1024}


def fastest(command, rounds):
    runs = [timed(command) for _ in range(rounds)]
    return min(runs, key=lambda run: run["cpu_seconds"])


def compile_command(shardwright, work, layers):
    config = json.loads((HERE / "llama-25m" / "config.json").read_text())
    folder = work / ("llama-%d-layers" % layers)
    folder.mkdir(parents=True, exist_ok=True)
    config["num_hidden_layers"] = layers
    (folder / "config.json").write_text(json.dumps(config))
    facts = json.loads(subprocess.run([str(shardwright), "inspect", str(folder), "--sequence",
                                       "256", "--json"], check=True, text=True,
                                      stdout=subprocess.PIPE).stdout)
    plan = plans.plan({"name": facts["model"], "sha256": facts["sha256"], "sequence": 256,
                       "layers": layers}, micro=1, batch=4, dtype="f32")
    (folder / "plan.json").write_text(json.dumps(plan))
    return [shardwright, "compile", folder, "--plan", folder / "plan.json", "-o",
            folder / "program"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    commands = {"inspect Llama 3 70B": [arguments.shardwright, "inspect", LLAMA_70B]}
    for gpus in (64, 1024):
        commands["plan Llama 3 70B on %d GPUs" % gpus] = [
            arguments.shardwright, "plan", LLAMA_70B, "--cluster", "dgx-h100", "--gpus", gpus,
            "-o", arguments.work / "plan.json"]
    for layers in (2, 126):
        command = compile_command(arguments.shardwright, arguments.work, layers)
        commands["compile %d layers, object" % layers] = command + ["--emit", "obj"]
        commands["compile %d layers" % layers] = command
    results = {}
    print("%-30s %9s %9s %9s" % ("command", "wall s", "user s", "peak MiB"))
    for name, command in commands.items():
        run = results[name] = fastest(command, arguments.rounds)
        print("%-30s %9.2f %9.2f %9.0f" % (name, run["seconds"], run["user_seconds"],
                                           run["peak_memory_bytes"] / 2**20), flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
