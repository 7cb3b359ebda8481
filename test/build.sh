#!/bin/bash
# Builds a clone: installs what is missing, configures, builds.
#
#   test/build.sh [target...]        e.g. test/build.sh shardwright; none: all
#
# Installs what is missing if it may (root, or sudo without a password), else
# says what to install. The build tree is build/ of the clone.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build

# What a plain Debian 12 lacks; libmlir-22-dev is in bookworm-security.
packages=(g++ cmake ninja-build libmlir-22-dev mlir-22-tools llvm-22-dev
          llvm-22-tools lld-22 nlohmann-json3-dev libcli11-dev
          libpugixml-dev catch2
          libopenblas-dev libopenmpi-dev openmpi-bin ccache python3
          make dpkg-dev file)

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null || true)
  [[ $status == "install ok installed" ]] || missing+=("$package")
done

if ((${#missing[@]})); then
  install=(apt-get -o DPkg::Lock::Timeout=300 install -y
           --no-install-recommends "${missing[@]}")
  if [[ $(id -u) == 0 ]]; then
    as_root=(env DEBIAN_FRONTEND=noninteractive)
  elif sudo -n true 2>/dev/null; then
    as_root=(sudo -n env DEBIAN_FRONTEND=noninteractive)
  else
    {
      echo "build.sh: expected these packages to be installed, but they are not:"
      echo "  ${missing[*]}"
      echo "build.sh: no right to install them here; ask for:"
      echo "  apt-get update && ${install[*]}"
    } >&2
    exit 1
  fi
  echo "build.sh: installing ${missing[*]}" >&2
  # A mirror that does not answer is no reason to stop: install says what lacks.
  "${as_root[@]}" apt-get -o DPkg::Lock::Timeout=300 update -q ||
    echo "build.sh: apt-get update failed; trying with the lists there are" >&2
  "${as_root[@]}" "${install[@]}" -q || {
    echo "build.sh: expected apt-get to install ${missing[*]}, but it failed" >&2
    exit 1
  }
fi

# What ccache needs to serve precompiled headers; it is only a speed-up.
export CCACHE_SLOPPINESS=pch_defines,time_macros

cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=RelWithAssert
targets=()
for target in "$@"; do targets+=(--target "$target"); done
cmake --build "$build" -j2 "${targets[@]}"
