#!/usr/bin/env bash
# Measures how long a program that includes <mobula/mobula.h> compiles: median of five. The aim is under 3 seconds.
#   tests/bench/compile_time.sh [CXX]
set -euo pipefail
cxx=${1:-c++}
root=$(cd "$(dirname "$0")/../.." && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp "$root/tests/install/consumer/main.cc" "$scratch/main.cc"
wall=() cpu=()
for _ in 1 2 3 4 5; do
  start=$(date +%s%N)
  took=$({ TIMEFORMAT='%U %S'; time CCACHE_DISABLE=1 "$cxx" -std=c++20 -O2 "-I$root/runtime/include" \
    -c "$scratch/main.cc" -o "$scratch/main.o" >&2; } 2>&1 | tail -n 1)
  wall+=($((($(date +%s%N) - start) / 1000000)))
  cpu+=("$(awk '{printf "%d", ($1 + $2) * 1000}' <<<"$took")")
done
median() { printf '%s\n' "$@" | sort -n | sed -n 3p; }
echo "a program with <mobula/mobula.h>: $(median "${wall[@]}") ms to compile, $(median "${cpu[@]}") ms of one processor"
echo "  (medians of 5: ${wall[*]}; the second counts where other work runs beside it)"
