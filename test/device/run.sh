#!/bin/sh
# Tests and times the CUDA backend on a machine with an NVIDIA GPU. Needs nvcc,
# g++ and Python 3, no LLVM and no network; see README.md beside this.
exec python3 "$(dirname "$0")/run.py" "$@"
