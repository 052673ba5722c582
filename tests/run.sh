#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. Its last lines are ctest's.
#   tests/run.sh                          the release build in build/
#   tests/run.sh asan                     another preset: debug, asan, tsan
#   tests/run.sh [PRESET] -R scheduler    all other arguments go to ctest, here: only tests whose name matches
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root"
preset=release
case "${1:-}" in
  release | debug | asan | tsan) preset=$1; shift ;;
  -h | --help) sed -n '2,5p' "$0"; exit 0 ;;
  "" | -*) ;;
  *) echo "tests/run.sh: no preset is named $1; there are release, debug, asan and tsan" >&2; exit 2 ;;
esac

examples/setup.sh --tests
cmake --preset "$preset"
cmake --build --preset "$preset"
ctest --preset "$preset" --parallel "$(nproc)" "$@" </dev/null
