#!/bin/sh
# Makes a folder that a machine with a GPU needs: the runtime's sources, compiled
# objects of a few models, and two header-only libraries. Run it where the
# compiler is built; copy the folder to the GPU's machine; run test/device/run.sh
# in it.
#
# usage: test/device/pack.sh SHARDWRIGHT FOLDER
#   SHARDWRIGHT   the compiler, such as build/bin/shardwright; beside it lies
#                 row_kernels, which the build of the tests makes
set -eu
if [ $# -ne 2 ]; then
  echo "usage: $0 SHARDWRIGHT FOLDER" >&2
  exit 5
fi
root=$(cd "$(dirname "$0")/../.." && pwd)
compiler=$1
out=$2
if [ -e "$out" ]; then
  echo "error: expected '$out' not to exist, so that nothing is overwritten" >&2
  exit 5
fi
rows=$(dirname "$compiler")/row_kernels
for tool in "$compiler" "$rows"; do
  if [ ! -x "$tool" ]; then
    echo "error: expected '$tool' to be a program of the build, but it is none" >&2
    exit 5
  fi
done
for header in nlohmann/json.hpp catch2/catch.hpp; do
  if [ ! -e "/usr/include/$header" ]; then
    echo "error: expected /usr/include/$header, but it is not there" >&2
    exit 3
  fi
done
# Half a folder would look like a whole one.
trap 'rm -rf "$out"' EXIT
trap 'exit 130' INT TERM
mkdir -p "$out/test" "$out/objects" "$out/include/nlohmann" "$out/include/catch2"
cp -r "$root/runtime" "$out/"
cp -r "$root/test/device" "$out/test/"
mkdir -p "$out/test/unit/compiler" "$out/compiler/Codegen" "$out/rows"
cp "$root/test/unit/CatchMain.cpp" "$out/test/unit/"
for name in RowRun.h RowCompare.h RowCompare.cpp RowMapsTest.cpp \
            RowReductionsTest.cpp RowUpdateTest.cpp; do
  cp "$root/test/unit/compiler/$name" "$out/test/unit/compiler/"
done
cp "$root/compiler/Codegen/RowProgram.h" "$root/compiler/Codegen/RowProgram.cpp" \
   "$out/compiler/Codegen/"
"$rows" "$out/rows"
cp "$root/README.md" "$out/"
cp -r /usr/include/nlohmann/. "$out/include/nlohmann/"
cp /usr/include/catch2/catch.hpp "$out/include/catch2/"

# NAME MODEL TARGET DTYPE[+GRADIENTS] SEQUENCE GLOBAL_BATCH MICRO_BATCH [RANKS AXIS]
compile() {
  cluster=dgx-h100
  architectures="--gpu-arch sm_80,sm_90,sm_100"
  if [ "$3" = host ]; then
    cluster=host
    architectures=
  fi
  case $4 in
  *+*) types="${4%+*} --gradients ${4#*+}" ;;
  *) types=$4 ;;
  esac
  layout=${8+"--gpus $8 --$9 $8"}
  # shellcheck disable=SC2086
  "$compiler" compile "$2" --cluster $cluster ${layout:---gpus 1 --dp 1} --dtype $types \
    --sequence "$5" --global-batch "$6" --micro-batch "$7" --target "$3" \
    $architectures --emit obj -o "$out/objects/$1.o" \
    --plan-output "$out/objects/$1.plan.json" > "$out/objects/$1.log" 2>&1 || {
    cat "$out/objects/$1.log" >&2
    exit 1
  }
  echo "$1.o: $2, $4 for $3, sequence $5, batch $6 in $7"
}
tiny=$root/examples/models/tiny-llama
compile tiny.host.f32 "$tiny" host f32 128 8 4
compile tiny.host.f64 "$tiny" host f64 128 8 4
compile tiny.cuda.f32 "$tiny" cuda f32 128 8 4
compile tiny.cuda.bf16 "$tiny" cuda bf16 128 8 4
compile tiny.cuda.bf16.bf16 "$tiny" cuda bf16+bf16 128 8 4
compile tiny.cuda.bf16.dp2 "$tiny" cuda bf16 128 8 2 2 dp
compile tiny.cuda.f32.tp2 "$tiny" cuda f32 128 8 4 2 tp
compile 125m.cuda.bf16 "$root/test/device/models/llama-125m" cuda bf16 1024 32 16
compile 1b.cuda.bf16 "$root/test/device/models/llama-1b" cuda bf16 2048 16 4
trap - EXIT
