#!/usr/bin/env bash
# Measures how long a program that includes <mobula/mobula.h> compiles: median of five. The aim is under 3 seconds.
#   tests/bench/compile_time.sh [CXX]
set -euo pipefail
cxx=${1:-c++}
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$root/tests/install/consumer/main.cc" "$scratch/main.cc"
times=()
for _ in 1 2 3 4 5; do
  start=$(date +%s%N)
  CCACHE_DISABLE=1 "$cxx" -std=c++20 -O2 "-I$root/runtime/include" -c "$scratch/main.cc" -o "$scratch/main.o"
  times+=($((($(date +%s%N) - start) / 1000000)))
done
median=$(printf '%s\n' "${times[@]}" | sort -n | sed -n 3p)
echo "a program with <mobula/mobula.h>: $median ms to compile (median of 5: ${times[*]})"
