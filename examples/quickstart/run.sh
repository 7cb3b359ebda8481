#!/bin/bash
# From a config.json to a trained model, in five steps; README.md tells them.
#
#   examples/quickstart/run.sh [WORK_FOLDER]
#
# Installs what is missing and builds the tools first (test/build.sh), unless
# SHARDWRIGHT_BIN names a folder that has them; then it takes about two minutes
# on two cores. Exits 2 if one of its claims does not hold.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
bin=${SHARDWRIGHT_BIN:-$root/build/bin}
models=$root/examples/models
work=${1:-$(mktemp -d)}
mkdir -p "$work"
steps=${STEPS:-40}
export OPENBLAS_NUM_THREADS=1

say() { printf '\n== %s\n' "$*"; }
no() { echo "quickstart: expected $*" >&2; exit 2; }
# On a fresh machine this installs what is missing and builds the tools.
[[ ${SHARDWRIGHT_BIN:-} ]] ||
  "$root/test/build.sh" shardwright shardwright-opt shardwright_rt >&2

say "1. The fastest way to train Llama 3 on 64 H100"
for model in llama-3-8b llama-3-70b; do
  "$bin/shardwright" plan "$models/$model" --cluster dgx-h100 --gpus 64 \
    --global-batch 128 -o "$work/$model.plan.json"
done

say "2. A plan for this machine: a model of 4.5 M parameters on 8 ranks"
"$bin/shardwright" predict "$models/tiny-llama" --cluster host --dp 2 --tp 2 \
  --pp 2 --sp --zero 1 --sequence 128 --global-batch 16 --micro-batch 2 \
  --dtype f32 -o "$work/plan.json" --json >"$work/predicted.json"
"$bin/shardwright" compile "$models/tiny-llama" --plan "$work/plan.json" \
  -o "$work/tiny-llama"

# A real text: the first that this machine has.
text=
for candidate in /usr/share/common-licenses/GPL-3 \
    /usr/share/common-licenses/GPL-2 "$root/test/golden/corpus.txt" \
    "$root/README.md"; do
  if [[ -f $candidate ]]; then text=$candidate; break; fi
done
[[ $text ]] || no "a text to train on"
# What guessing by letter frequency alone would cost, nats a byte.
entropy=$(python3 - "$text" <<'PY'
import collections, math, sys
data = open(sys.argv[1], "rb").read()
counts = collections.Counter(data).values()
print(-sum(n / len(data) * math.log(n / len(data)) for n in counts))
PY
)

say "3. Train it on $text, 8 ranks as threads"
"$work/tiny-llama" --ranks 8 --data "$text" --steps "$steps" --lr 2e-3 --json \
  >"$work/threads.json"
losses() { grep -o '"loss": *[0-9.e+-]*' "$1" | sed 's/.*: *//'; }
losses "$work/threads.json" |
  awk -v last="$steps" 'NR == 1 || NR % 10 == 0 || NR == last {
    printf "step %3d  loss %.4f\n", NR, $1 }'
# The mean of the last steps: one step's loss depends on its text.
final=$(losses "$work/threads.json" | tail -n 5 |
  awk '{ sum += $1 } END { print sum / NR }')
echo "unigram entropy $entropy"
awk -v a="$final" -v b="$entropy" 'BEGIN { exit !(a < b) }' ||
  no "a loss below the unigram entropy $entropy, but got $final"

say "4. The same program as 8 MPI processes"
if command -v mpirun.openmpi >/dev/null; then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
  export OMPI_MCA_btl_base_warn_component_unused=0
  mpirun.openmpi -n 8 "$work/tiny-llama" --data "$text" --steps 5 --lr 2e-3 \
    --json >"$work/mpi.json"
  bits() { grep -v summary "$1" | head -n 5 |
    sed -E 's/, "seconds".*//'; }
  diff <(bits "$work/threads.json") <(bits "$work/mpi.json") ||
    no "equal losses and gradient norms, digit for digit"
  echo "losses and gradient norms of 5 steps: the same bits as with threads"
else
  echo "skipped: no mpirun.openmpi on this machine"
fi

say "5. Predicted, counted, measured"
"$bin/shardwright" compile "$models/tiny-llama" --plan "$work/plan.json" \
  --emit spmd -o "$work/tiny-llama.spmd.mlir"
"$bin/shardwright-opt" "$work/tiny-llama.spmd.mlir" --sw-count-ledger=json \
  -o /dev/null >"$work/counted.json"
python3 "$here/ledgers.py" "$work/predicted.json" "$work/counted.json" \
  "$work/threads.json"
