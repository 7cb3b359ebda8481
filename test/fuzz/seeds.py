#!/usr/bin/env python3
"""seeds.py BIN SOURCE FOLDER: writes IR of every phase into FOLDER, for fuzz_ir.

What the tools in BIN make today of two tiny models and the plans of the pass
tests, so that no seed grows old; and modules that carry the plan or the program
of another one, which keep the contract of their phase and fit nothing.
"""
import os
import re
import shutil
import subprocess
import sys

tools, source, folder = sys.argv[1:4]
# A build knows nothing of the preset that runs tests with sanitizers.
os.environ.setdefault("ASAN_OPTIONS", "detect_container_overflow=0:detect_leaks=0:"
                      "allow_user_poisoning=0")
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
plans = f"{source}/test/Passes/Inputs"


def opt(text, *flags):
    return subprocess.run([f"{tools}/shardwright-opt", *flags], input=text,
                          check=True, capture_output=True, text=True).stdout


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') \
        .replace("\n", "\\n") + '"'


def write(name, text):
    # Without the white space of embedded JSON, which is half of a module.
    text = re.sub(r"\\0A *", "", text)
    with open(f"{folder}/{name}.mlir", "w") as file:
        file.write(text)


def attribute(text, key):
    """`key = "..."` of the module's first line, which all others follow."""
    found = re.search(rf'{re.escape(key)} = "[^"]*"', text)
    return found and found.group(0)


def seeds(model, plan_path, edits):
    imported = subprocess.run(
        [f"{tools}/shardwright-import", f"{source}/test/golden/{model}",
         "--sequence", "24"], check=True, capture_output=True, text=True).stdout
    with open(f"{plans}/{plan_path}") as file:
        plan = file.read()
    for before, after in edits:
        plan = plan.replace(before, after)
    steps = os.path.join(folder, "steps")
    os.makedirs(steps)
    differentiated = opt(imported, f"-sw-import-pipeline=dump-dir={steps}")
    differentiated = differentiated.replace(
        "attributes {", f"attributes {{plan.text = {quoted(plan)}, ", 1)
    opt(differentiated, f"-sw-plan-pipeline=dump-dir={steps}", "-o", os.devnull)
    phases = {}
    for name in sorted(os.listdir(steps)):
        with open(f"{steps}/{name}") as file:
            phases[name.split("-")[1].split(".")[0]] = file.read()
    shutil.rmtree(steps)
    phases["differentiated"] = differentiated
    # sw-insert-reshards reads `planned`, too, as sw-apply-plan leaves it.
    phases["applied"] = opt(differentiated, "-sw-apply-plan")
    return phases


# What has ended a pass once, made anew in modules of today: phase, text, what it
# was replaced by.
EDITS = [("differentiated", "#model.res<saved, 1>", "#model.res<saved, 4294967297>")]

made = {
    "llama-sp": seeds("llama-tiny", "dp2-tp2-pp2-sp.json", []),
    "llama-zero": seeds("llama-tiny", "dp2-zero1.json", []),
    "gpt2": seeds("gpt2-tiny", "dp2.json", [('"dense", 5,', '"dense", 3,')]),
}
for name, phases in made.items():
    for phase, text in phases.items():
        write(f"{name}-{phase}", text)
    for number, (phase, before, after) in enumerate(EDITS):
        assert before in phases[phase], (name, phase, before)
        write(f"{name}-edit-{number}", phases[phase].replace(before, after, 1))
for name, other in (("llama-sp", "gpt2"), ("gpt2", "llama-zero"),
                    ("llama-zero", "llama-sp")):
    for phase, text in made[name].items():
        for key in ("plan.text", "plan.program", "plan.mesh"):
            before = attribute(text, key)
            after = attribute(made[other][phase], key)
            if before and after:
                write(f"{name}-{phase}-{key}-of-{other}",
                      text.replace(before, after, 1))
