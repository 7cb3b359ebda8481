"""provoke.py SOURCE FOLDER: provokes every entry of the catalogue of refusals.

Runs one command for each, in FOLDER, and checks that it exits with the entry's
code, writes nothing on stdout and ends a message in the entry's name. An entry
that nothing here provokes fails the test; rules that no command can reach name
the unit test that breaks them.
"""
import copy
import json
import os
import shutil
import subprocess
import sys

source, folder = sys.argv[1:3]
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.chdir(folder)


def write(name, value):
    with open(name, "w") as file:
        file.write(value if isinstance(value, str) else json.dumps(value))
    return name


def read(name):
    with open(name) as file:
        return json.load(file)


def changed(base, **keys):
    """A copy with keys set (`a__b` reaches inside, None removes)."""
    result = copy.deepcopy(base)
    for path, value in keys.items():
        target, parts = result, path.split("__")
        for part in parts[:-1]:
            target = target[part]
        if value is None:
            del target[parts[-1]]
        else:
            target[parts[-1]] = value
    return result


def shardwright(*arguments, **options):
    return subprocess.run(["shardwright", *arguments], capture_output=True,
                          text=True, timeout=120, **options)


tiny = f"{source}/examples/models/tiny-llama"
config = read(f"{tiny}/config.json")
mixtral = read(f"{source}/test/Tools/Inputs/mixtral-8x7b/config.json")
cluster = read(f"{source}/cost_model/data/hardware/dgx-h100.json")
with open(f"{source}/test/Tools/Inputs/runs.jsonl") as file:
    row = json.loads(file.readline())

made = shardwright("predict", tiny, "--cluster", "host", "--gpus", "8", "--tp",
                   "2", "--pp", "2", "--global-batch", "16", "-o", "plan.json")
assert made.returncode == 0, made.stderr
plan = changed(read("plan.json"), model__sha256="")
report = json.loads(
    shardwright("predict", tiny, "--cluster", "host", "--plan", "plan.json",
                "--json").stdout)

cases = {}


def case(name, *command, code=None, **options):
    """`code` is given where it is not the entry's own."""
    assert name not in cases, name
    cases[name] = (command, code, options)


def model(name, value, *flags, code=None):
    case(name, "inspect", write(f"{name}.model.json", value), *flags, code=code)


def planned(name, value, model=tiny, code=None):
    case(name, "predict", model, "--cluster", "host", "--plan",
         write(f"{name}.plan.json", value), code=code)


def flags(name, *flags, model=tiny, cluster="host", code=None):
    case(name, "predict", model, "--cluster", cluster, *flags, code=code)


def search(name, *flags, model=tiny, cluster="dgx-h100", code=None):
    case(name, "plan", model, "--cluster", cluster, *flags, code=code)


# Usage.
case("unknown_verb", "plna")
search("wrong_flag", "--tpo", "8")
search("repeated_flag", "--gpus", "8", "--gpus", "16")
search("flag_value", "--memory-limit", "lots")
search("conflicting_flags", "--fix", "tp=8", "--max", "tp=4")
case("missing_plan", "compile", tiny, "-o", "a.out")
case("nothing_to_do", "validate")
case("unknown_cluster", "predict", tiny, "--cluster", "dgx-h10")
write("pcie.txt", "\tGPU0\tGPU1\nGPU0\tX\tSYS\nGPU1\tSYS\tX\n")
case("unknown_gpu", "import-topology", "pcie.txt", "--gpu", "A100")
case("missing_gpu", "import-topology", "pcie.txt", "-o", "pcie.json")
case("unlike_cluster", "import-topology", "pcie.txt", "--gpu", "H100")
case("wrong_topology", "import-topology",
     write("cut.txt", "\tGPU0\tGPU1\nGPU0\tX\tSYS\n"))
case("unsupported_topology", "import-topology", write("graph.xml", "<graphs/>"))
case("not_xml", "import-topology", write("cut.xml", "<system"))
case("nothing_to_calibrate", "calibrate", "--like", "dgx-h100", "--kernels",
     write("other.jsonl", '{"gpu": "A100-80GB", "kernel": "gemm", "dtype": '
           '"bf16", "shape": {"m": 4096, "n": 4096, "k": 4096}, "us": 550}'))
flags("unknown_profile", "--profile", "natvie")
search("device_count", "--gpus", "12")
flags("degrees_fill_devices", "--gpus", "8", "--tp", "2", "--dp", "8")
os.mkfifo("pipe")
search("output_unwritable", "--gpus", "1", "--global-batch", "1", "-o", "pipe")
case("output_is_input", "predict", tiny, "--cluster", "host", "--plan",
     "plan.json", "-o", "plan.json")
case("output_twice", "compile", tiny, "--cluster", "host", "-o", "a.out",
     "--plan-output", "a.out")
flags("missing_output", "--gpus", "1", "--global-batch", "1", "--depfile", "d")
case("unknown_cpu", "compile", tiny, "--cluster", "host", "--gpus", "1",
     "--global-batch", "1", "--tp", "1", "--emit", "obj", "--cpu", "z80", "-o",
     "a.o")

# Files.
case("file_unreadable", "inspect", "nowhere/config.json")
model("not_json", "{")
model("duplicate_key", '{"model_type": "llama", "model_type": "llama"}')
model("missing_key", changed(config, rope_scaling={"rope_type": "linear"}))
planned("unknown_key", changed(plan, colour="red"))
model("wrong_type", changed(config, hidden_size="wide"))
model("out_of_range", changed(config, hidden_size=-3))
case("wrong_unit", "predict", tiny, "--cluster",
     write("gigabytes.json", changed(cluster,
                                     device__memory__bytes_per_second=3350)))
planned("wrong_value", changed(plan, schedule__kind="round"))
planned("wrong_schema", changed(plan, schema="shardwright.plan/99"))
case("missing_source", "predict", tiny, "--cluster",
     write("no-source.json", changed(cluster, device__memory__source="")))
case("no_rows", "validate", write("empty.jsonl", "\n"))

# Models.
model("missing_model_type", changed(config, model_type=None,
                                    architectures=None))
model("unknown_model_type", changed(config, model_type="lama",
                                    architectures=None))
model("unsupported_model", changed(config, model_type="t5"))
model("unsupported_architecture",
      changed(config, architectures=["LlamaForSequenceClassification"]))
model("unsupported_key", changed(config, wormholes=3))
model("unsupported_setting", changed(config, hidden_act="sine"))
model("conflicting_keys",
      changed(config, rope_scaling={"rope_type": "linear", "type": "llama3",
                                    "factor": 2.0}))
model("heads_divide", changed(config, num_key_value_heads=3))
model("odd_rotary_width", changed(config, hidden_size=248))
model("expert_numbers", changed(mixtral, num_experts_per_tok=9))
model("model_size", changed(config, hidden_size=1048576, head_dim=1048576))
case("missing_sequence", "plan",
     write("missing_sequence.json",
           changed(read(f"{source}/test/golden/bloom-tiny/config.json"),
                   seq_length=None)),
     "--cluster", "dgx-h100")
model("sequence_range",
      read(f"{source}/examples/models/gpt2/config.json"), "--sequence", "4096")
model("too_many_flops",
      changed(config, hidden_size=262144, num_attention_heads=2048,
              num_key_value_heads=2048, num_hidden_layers=1000),
      "--sequence", "16777216")

# Rules of plans: in files, and spelt by flags (exit 5).
planned("model_matches", changed(plan, model__sha256="0" * 64))
planned("mesh_equals_degrees", changed(plan, parallel__dp=4))
flags("heads_divisible_by_tp", "--gpus", "3", "--tp", "3", "--global-batch",
      "3", cluster="dgx-h100", code=5)
flags("kv_heads_divisible_by_tp", "--gpus", "4", "--tp", "4", "--global-batch",
      "8", code=5,
      model=write("kv.json", changed(config, num_attention_heads=12,
                                     num_key_value_heads=6, head_dim=16)))
flags("kv_heads_of_framework", "--gpus", "8", "--tp", "8", "--global-batch",
      "8", "--sp", "--runs-on", "torchtitan", cluster="dgx-h100", code=5)
planned("kv_replicas_match", changed(plan, parallel__kv_replicas=2))
planned("narrow_extents", changed(plan, dtypes__products="fp8_block"))
flags("ffn_divisible_by_tp", "--gpus", "8", "--tp", "8", "--global-batch", "8",
      code=5,
      model=write("ffn.json", changed(config, intermediate_size=692,
                                      num_key_value_heads=8)))
flags("experts_divisible_by_ep", "--gpus", "8", "--ep", "3", "--global-batch",
      "8", code=5, cluster="dgx-h100", model=write("mixtral.json", mixtral))
flags("expert_ranks", "--gpus", "2", "--ep", "8", "--global-batch", "8", code=5,
      cluster="dgx-h100", model="mixtral.json")
flags("etp_of_framework", "--gpus", "8", "--tp", "4", "--etp", "2", "--sp",
      "--global-batch", "8", "--runs-on", "deepspeed", code=5,
      cluster="dgx-h100", model="mixtral.json")
made = shardwright("predict", "mixtral.json", "--cluster", "dgx-h100", "--gpus",
                   "8", "--tp", "2", "--global-batch", "8", "-o", "experts.json")
assert made.returncode == 0, made.stderr
case("experts_tp_needs_sp", "predict", "mixtral.json", "--cluster", "dgx-h100",
     "--plan", write("whole.json", changed(read("experts.json"),
                                           parallel__sp=False)))
planned("sp_needs_tp", changed(plan, parallel__sp=True, parallel__tp=1,
                               parallel__dp=4))
flags("sequence_divisible_by_tp", "--gpus", "2", "--tp", "2", "--sp",
      "--sequence", "255", "--global-batch", "2", code=5)
flags("batch_divisible", "--gpus", "8", "--global-batch", "9", code=5)
flags("pp_at_most_layers", "--gpus", "8", "--pp", "8", "--global-batch", "8",
      code=5)
planned("stages_equal_pp", changed(plan, stages=plan["stages"][:1]))
empty = {"runs": []}
planned("stages_not_empty", changed(plan, stages=[plan["stages"][0], empty]))
odd = copy.deepcopy(plan["stages"])
odd[0]["runs"][0][0] = "moe"
planned("stage_kinds_known", changed(plan, stages=odd))
again = copy.deepcopy(plan["stages"])
again[0]["runs"][0][2] = "full"
planned("recompute_known", changed(plan, stages=again))
more = copy.deepcopy(plan["stages"])
more[1]["runs"][0][1] += 1
planned("stages_cover_stack", changed(plan, stages=more))
planned("embedding_on_first_stage", changed(plan, stages=plan["stages"][::-1]))
planned("head_on_last_stage", changed(plan, stages=plan["stages"][::-1]))
planned("sequence_divisible_by_cp",
        changed(plan, parallel__cp=3, parallel__cp_kind="p2p",
                parallel__zero=0, parallel__zero_axes=[]))
planned("heads_divisible_by_cp",
        changed(plan, parallel__cp=64, parallel__cp_kind="a2a",
                parallel__zero=0, parallel__zero_axes=[]))
flags("heads_repeated_for_cp", "--gpus", "16", "--cp", "16", "--cp-kind", "a2a",
      "--global-batch", "16", "--runs-on", "deepspeed", cluster="dgx-h100",
      model=f"{source}/examples/models/llama-3-8b")
planned("schedule_fits", changed(plan, schedule__chunks=2))
flags("groups_of_framework", "--gpus", "4", "--pp", "4", "--schedule",
      "interleaved", "--global-batch", "11", "--microbatch-group", "11",
      "--runs-on", "torchtitan", cluster="dgx-h100", code=5,
      model=f"{source}/examples/models/llama-3-8b")
flags("compiled_by_native", "--gpus", "2", "--cp", "2", "--global-batch", "2",
      "--runs-on", "native", cluster="dgx-h100",
      model=f"{source}/examples/models/llama-3-8b")
planned("reduce_equals_grad", changed(plan, dtypes__reduce="bf16"))
unit = {
    name: "RulesTest.cpp" for name in
    ("degrees_positive", "sequence_matches", "expert_ffn_divisible_by_etp",
     "non_nested_axes", "counts_fit", "zero_known", "zero_group",
     "ring_sees_all", "whole_sequences")}
unit |= {
    name: "FrameworkRulesTest.cpp" for name in
    ("zero_of_framework", "schedule_of_framework", "tp_needs_sp",
     "cp_of_framework", "copies_of_framework", "offload_of_framework",
     "activations_of_framework",
     "order_of_framework", "recompute_of_framework", "gradients_of_framework", "products_of_framework")}

# Search.
search("no_plan_fits", "--gpus", "8", "--global-batch", "8",
       model=f"{source}/examples/models/llama-3-70b")
search("no_plan_is_legal", "--gpus", "8", "--fix", "tp=8", "--global-batch",
       "8", "--runs-on", "torchtitan")
search("no_mesh", "--gpus", "8", "--fix", "tp=3", "--global-batch", "8")
case("expectation", "predict", tiny, "--cluster", "host", "--plan", "plan.json",
     "--expect", write("then.json", changed(report, step_time_seconds=1e3)))
flags("plan_does_not_fit", "--gpus", "1", "--global-batch", "1",
      "--require-fit", model=f"{source}/examples/models/llama-3-70b",
      cluster="dgx-h100")
search("search_stopped", "--gpus", "256", "--time-limit", "0.001",
       "--sequence", "8192", "--global-batch", "1024",
       model=f"{source}/test/benchmark/models/moe-2t")
search("zero_not_of_framework", "--fix", "zero=3")
search("schedule_not_of_framework", "--fix", "schedule=zb-v")
flags("no_rate_for_dtype", "--dtype", "bf16")

# Compile.
compiled = ("compile", tiny, "--cluster", "host", "--gpus", "1",
            "--global-batch", "1", "--tp", "1")
case("unsupported_dtype", "compile", tiny, "--plan",
     write("bf16.json", changed(plan, dtypes={key: "bf16"
                                              for key in plan["dtypes"]})),
     "-o", "a.out")
case("not_compiled_yet", "compile", "mixtral.json", "--cluster", "host",
     "--gpus", "1", "--global-batch", "1", "--tp", "1", "-o", "a.out")
tool = shutil.which("shardwright")
case("no_linker", *compiled, "-o", "a.out", executable=tool, env={**os.environ, "PATH": "."})
os.makedirs("moved/bin")
case("no_runtime", *compiled, "-o", "a.out",
     executable=shutil.copy(tool, "moved/bin/shardwright"))

# Validate.
case("nothing_predicted", "validate",
     write("tpu.jsonl", changed(row, hardware__gpu="TPUv4")))
case("mean_error", "validate", f"{source}/test/Tools/Inputs/runs.jsonl",
     "--require-mean", "0.000001")

# What provokes the first would be mended; the second needs another LLVM.
bugs = {"internal_error", "unsupported_target"}

failures = []
entries = json.loads(shardwright("diagnostics", "--json").stdout)
# test/Execute/faults.py, test/Passes/Verify/ids.test and surroundings.py provoke
# these.
elsewhere = {entry["name"] for entry in entries
             if entry["section"] in ("Programs", "IR", "Machine")}
for entry in entries:
    name = entry["name"]
    if name in bugs | elsewhere:
        continue
    if name in unit:
        with open(f"{source}/test/unit/cost_model/{unit[name]}") as file:
            if f'"{name}"' not in file.read():
                failures.append(f"{name}: not in {unit[name]}")
        continue
    if name not in cases:
        failures.append(f"{name}: nothing provokes it")
        continue
    command, code, options = cases[name]
    code = code or entry["exit_code"]
    ran = shardwright(*command, **options)
    if ran.returncode != code:
        failures.append(f"{name}: expected exit code {code}, but got "
                        f"{ran.returncode}: {ran.stderr}")
    elif not any(line.startswith("shardwright: error: ")
                 and line.endswith(f" [{name}]")
                 for line in ran.stderr.splitlines()):
        failures.append(f"{name}: expected its name, but got: {ran.stderr}")
    shown = shardwright("diagnostics", name).stdout
    if not shown.startswith(f"{name} (") or entry["cure"] not in shown:
        failures.append(f"{name}: not explained: {shown}")
known = {entry["name"] for entry in entries}
for name in {*cases, *unit, *bugs} - known:
    failures.append(f"{name}: no entry of the catalogue")
if len(known) != len(entries):
    failures.append("two entries have one name")
print(f"{len(entries)} entries, {len(cases)} provoked by commands")
sys.exit("\n".join(failures) or 0)
