#!/usr/bin/env python3
"""How fast `plan` answers at scale: whole process, whole space, by threads.

  search.py --shardwright BIN [--threads 1,2] [--rounds 3] [--models DIR] [--json FILE]

Questions without a config here (Llama 3.1 405B, DeepSeek-V3) are asked if DIR
holds the published config.json as Meta-Llama-3.1-405B.json, DeepSeek-V3.json.
Every answer is compared over the numbers of threads: its bytes may not differ.
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

# name, config, cluster, GPUs, sequences, tokens, seconds wanted: at most, better
QUESTIONS = [
    ("GPT-3 175B, 4,096 A100", HERE / "models" / "gpt3-175b", "dgx-a100", 4096, 1536, 2048, 2, 0.2),
    ("Llama 3.1 405B, 16,384 H100", "Meta-Llama-3.1-405B.json", "dgx-h100", 16384, 2048, 8192, 3,
     0.3),
    ("DeepSeek-V3, 2,048 H800", "DeepSeek-V3.json", "hgx-h800", 2048, 15360, 4096, 5, 0.5),
    ("MoE of 2 T, 131,072 H100", HERE / "models" / "moe-2t", "dgx-h100", 131072, 131072, 8192, 20,
     5),
]


def timed(command):
    start = time.perf_counter()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err)
        _, status, usage = os.wait4(process.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if code != 0:
            raise SystemExit("%s\nexit code %d\n%s" % (command, code, err.read().decode()[-2000:]))
        return {"seconds": time.perf_counter() - start,
                "cpu_seconds": usage.ru_utime + usage.ru_stime,
                "peak_memory_bytes": usage.ru_maxrss * 1024, "answer": out.read().decode()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shardwright", required=True)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--models", type=pathlib.Path)
    parser.add_argument("--profile", default="megatron-core")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    threads = [int(count) for count in arguments.threads.split(",")]
    results, failed = [], False
    print("%-30s %7s %8s %8s %9s %6s %6s %16s" % ("question", "threads", "wall s", "CPU s",
                                                  "peak MiB", "must", "aim", "plans"))
    for name, config, cluster, gpus, batch, tokens, must, aim in QUESTIONS:
        if isinstance(config, str):
            if arguments.models is None:
                continue
            config = arguments.models / config
        answers = set()
        for count in threads:
            command = [arguments.shardwright, "plan", config, "--cluster", cluster, "--gpus", gpus,
                       "--global-batch", batch, "--sequence", tokens, "--profile",
                       arguments.profile, "--threads", count, "--json"]
            runs = [timed(command) for _ in range(arguments.rounds)]
            answers |= {run.pop("answer") for run in runs[1:]} | {runs[0]["answer"]}
            plans = json.loads(runs[0].pop("answer"))["search"]["considered"]
            best = min(runs, key=lambda run: run["cpu_seconds"])
            best.update(question=name, threads=count, considered=plans, must=must, aim=aim)
            results.append(best)
            print("%-30s %7d %8.2f %8.2f %9.0f %6g %6g %16s" % (
                name, count, best["seconds"], best["cpu_seconds"],
                best["peak_memory_bytes"] / 2**20, must, aim, format(plans, ",")), flush=True)
        if len(answers) != 1:
            print("%s: the answer depends on the threads or the round" % name, file=sys.stderr)
            failed = True
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")
    raise SystemExit(1 if failed else 0)


if __name__ == "__main__":
    main()
