"""export.py FOLDER SOURCE: what `shardwright export` writes, by other eyes.

- The arguments that describe a model give, by the formulas of Megatron Core's
  modules (written down below), the parameters that `inspect` counts.
- What a published script says of Mixtral 8x7B is what its plan gives.
- TOML and JSON are read by Python, scripts are run by a shell with a torchrun
  that says what it was told.
"""
import json
import os
import shutil
import subprocess
import sys
import tomllib

folder, source = sys.argv[1:3]
shutil.rmtree(folder, ignore_errors=True)
os.makedirs(folder)
os.chdir(folder)
problems = []


def claim(holds, what):
    if not holds:
        problems.append("expected " + what)


def run(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120,
                          check=False, **options)
    claim(done.returncode == 0, f"{' '.join(command)} to succeed: {done.stderr}")
    return done.stdout


def plan(model, *flags, cluster="dgx-h100"):
    run("shardwright", "predict", f"{source}/{model}", "--cluster", cluster,
        *flags, "-o", "plan.json")


def export(model, framework, *flags):
    return run("shardwright", "export", f"{source}/{model}", "plan.json", "--to",
               framework, *flags)


def options(words):
    """{flag: value}, "" of a switch."""
    found = {}
    for i, word in enumerate(words):
        if word.startswith("--"):
            claim(word not in found, f"{word} once")
            follows = words[i + 1] if i + 1 < len(words) else "--"
            found[word] = "" if follows.startswith("--") else follows
    return found


def parameters(said):
    """Of GPTModel as these arguments build it, without padding.

    Source: NVIDIA/Megatron-LM d98e8a6, megatron/core/models/gpt,
    transformer/{attention,multi_latent_attention,mlp}.py, transformer/moe.
    """
    def number(flag, otherwise=None):
        return int(said.get(flag, otherwise))

    hidden, heads = number("--hidden-size"), number("--num-attention-heads")
    head = number("--kv-channels", hidden // heads)
    groups = number("--num-query-groups", heads)
    bias = "--disable-bias-linear" not in said
    gates = 2 if "--swiglu" in said else 1
    norm = hidden * (1 if said["--normalization"] == "RMSNorm" else 2)
    vocabulary = number("--vocab-size") * hidden

    def mlp(width):
        return ((gates + 1) * width * hidden +
                (gates * width + hidden if bias else 0))

    if "--multi-latent-attention" in said:
        low, rank = number("--kv-lora-rank"), number("--q-lora-rank", 0)
        nope, rope = number("--qk-head-dim"), number("--qk-pos-emb-head-dim")
        value = number("--v-head-dim")
        queries = heads * (nope + rope)
        attention = (hidden * rank + rank + rank * queries if rank
                     else hidden * queries)
        attention += hidden * (low + rope) + low
        attention += low * heads * (nope + value) + heads * value * hidden
    else:
        width = (heads + 2 * groups) * head
        attention = hidden * width + heads * head * hidden
        attention += width if bias or "--add-qkv-bias" in said else 0
        attention += hidden if bias else 0
        attention += 2 * head if "--qk-layernorm" in said else 0
    dense = mlp(number("--ffn-hidden-size"))
    layers = number("--num-layers")
    pattern = [0] * layers
    routed = 0
    if "--num-experts" in said:
        pattern = ([1] * layers if "--moe-layer-freq" not in said
                   else eval(said["--moe-layer-freq"]))  # as its parser does
        experts = number("--num-experts")
        routed = experts * mlp(number("--moe-ffn-hidden-size")) + experts * hidden
        routed += mlp(number("--moe-shared-expert-intermediate-size", 0))
        routed += hidden if "--moe-shared-expert-gate" in said else 0
    claim(len(pattern) == layers, f"a pattern of {layers} layers")
    total = vocabulary + norm
    if "--untie-embeddings-and-output-weights" in said:
        total += vocabulary
    if said["--position-embedding-type"] == "learned_absolute":
        total += number("--max-position-embeddings") * hidden
    for expert in pattern:
        total += attention + 2 * norm + (routed if expert else dense)
    return total


# Parameters.
models = (["examples/models/" + name for name in
           ("llama-3-8b", "llama-3-70b", "llama-2-7b", "gpt2", "tiny-llama")] +
          ["test/Tools/Inputs/" + name for name in
           ("gpt3-175b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3")] +
          ["test/golden/" + name for name in
           ("llama-tiny", "qwen2-tiny", "qwen3-tiny", "starcoder2-tiny")])
for model in models:
    inspected = json.loads(run("shardwright", "inspect", f"{source}/{model}",
                               "--json"))
    plan(model, "--gpus", "1", "--global-batch", "1")
    said = options(json.loads(export(model, "megatron-core", "--json"))
                   ["arguments"])
    counted, wanted = parameters(said), inspected["parameters"]["total"]
    # Megatron keeps the bias that balances experts as a buffer.
    if "--moe-router-enable-expert-bias" in said:
        counted += (int(said["--num-experts"]) *
                    sum(eval(said["--moe-layer-freq"])))
    claim(counted == wanted, f"{model}: {wanted} parameters, but got {counted}")

# NVIDIA/Megatron-LM d98e8a6, examples/mixtral/train_mixtral_8x7b_distributed.sh,
# without data, optimizer and what is deprecated; at tp 1 its --sequence-parallel
# is switched off by validate_args.
mixtral = "test/Tools/Inputs/mixtral-8x7b"
plan(mixtral, "--gpus", "32", "--tp", "1", "--pp", "4", "--ep", "8", "--zero",
     "1", "--global-batch", "256", "--sequence", "4096", "--runs-on",
     "megatron-core")
said = options(json.loads(export(mixtral, "megatron-core", "--json"))["arguments"])
for flag, value in options(
        "--disable-bias-linear --seq-length 4096 --max-position-embeddings 32768 "
        "--num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 "
        "--num-attention-heads 32 --attention-dropout 0.0 --hidden-dropout 0.0 "
        "--normalization RMSNorm --position-embedding-type rope --swiglu "
        "--untie-embeddings-and-output-weights --group-query-attention "
        "--num-query-groups 8 --rotary-base 1000000 --num-experts 8 "
        "--moe-router-topk 2 --moe-grouped-gemm --moe-token-dispatcher-type "
        "alltoall --overlap-param-gather --overlap-grad-reduce "
        "--micro-batch-size 1 --global-batch-size 256 --bf16 "
        "--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 "
        "--expert-model-parallel-size 8 --use-distributed-optimizer"
        .split()).items():
    claim(said.get(flag) == value,
          f"{flag} {value} of the script, but got {said.get(flag)}")

# A script says to the shell what --json says.
os.makedirs("bin")
with open("bin/torchrun", "w") as file:
    file.write('#!/bin/sh\nprintf "%s\\n" "$@" > told\n'
               'echo "$CUDA_DEVICE_MAX_CONNECTIONS" > connections\n')
os.chmod("bin/torchrun", 0o755)
surroundings = dict(os.environ,
                    PATH=os.getcwd() + "/bin:" + os.environ["PATH"],
                    NODE_RANK="3", MASTER_ADDR="10.0.0.1", MASTER_PORT="6000")
surroundings.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)


def told(script, *arguments):
    with open("launch.sh", "w") as file:
        file.write(script)
    run("sh", "launch.sh", *arguments, env=surroundings)
    with open("told") as file:
        return file.read().splitlines()


def connections():
    with open("connections") as file:
        return file.read().strip()


llama = "examples/models/llama-3-70b"
for framework, flags, wanted in (
        ("megatron-core", ("--layers", "20,22,19,19"), "1"),
        ("deepspeed", (), "1")):
    plan(llama, "--gpus", "64", "--tp", "8", "--pp", "4", "--sp", "--zero", "1",
         "--global-batch", "128", *flags)
    stated = json.loads(export(llama, framework, "--json"))
    words = [{"$NODE_RANK": "3", "$MASTER_ADDR": "10.0.0.1",
              "$MASTER_PORT": "6000"}.get(word, word) for word in
             stated["torchrun"] + stated["program"] + stated["arguments"]]
    heard = told(export(llama, framework), "--data-path", "two words")
    claim(heard == words + ["--data-path", "two words"],
          f"{framework}: {words}, but the shell heard {heard}")
    claim(connections() == wanted, f"{framework}: one connection")
    if stated["config_file"]:
        with open(stated["config_file"]) as file:
            claim(json.load(file) == stated["config"],
                  f"{framework}: the config that --json shows")

# TOML.
plan(llama, "--gpus", "64", "--tp", "8", "--pp", "4", "--sp", "--zero", "1",
     "--global-batch", "128", "--schedule", "interleaved", "--chunks", "2",
     "--recompute", "full", "--runs-on", "torchtitan")
stated = json.loads(export(llama, "torchtitan", "--json"))["config"]
read = tomllib.loads(export(llama, "torchtitan"))
claim(read == stated, f"{stated}, but TOML says {read}")
parts = read["parallelism"]["module_fqns_per_model_part"]
claim([len(part) for part in parts] == [11] + [10] * 6 + [12] and
      sum(parts, []) == ["tok_embeddings"] +
      [f"layers.{i}" for i in range(80)] + ["norm", "output"],
      f"80 layers in eight parts, but got {parts}")

for problem in problems:
    print(problem, file=sys.stderr)
sys.exit(1 if problems else 0)
