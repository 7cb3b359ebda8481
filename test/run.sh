#!/bin/bash
# Builds everything and runs every test, from a fresh clone to CTest's summary.
#
#   test/run.sh [ctest arguments]        e.g. test/run.sh -R lit.Dialect
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/test/build.sh"
cd "$root/build"
exec ctest --output-on-failure --no-tests=error -j2 "$@"
