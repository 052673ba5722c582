#!/usr/bin/env bash
# Each file here must fail to compile, and the compiler must print what the file's "// expect: " line says.
#   run.sh CXX REPOSITORY
# The public headers are compiled once, as a precompiled header; a control program proves that it is usable.
set -uo pipefail
cxx=$1 root=$2
here=$root/tests/compile_fail
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export CCACHE_DISABLE=1
flags=(-std=c++20 "-I$root/runtime/include")
if "$cxx" --version | grep -q clang; then
  "$cxx" "${flags[@]}" -w -x c++-header "$root/runtime/include/mobula/mobula.h" -o "$scratch/mobula.pch" || exit 1
  use=(-include-pch "$scratch/mobula.pch")
else
  "$cxx" "${flags[@]}" -w -x c++-header "$root/runtime/include/mobula/mobula.h" -o "$scratch/pre.h.gch" || exit 1
  use=(-include "$scratch/pre.h")
fi
cat >"$scratch/control.cc" <<'CONTROL'
#include <mobula/mobula.h>
int plus(int a, int b) { return a + b; }
void use() { mobula::remote<plus>(1, 2); }
CONTROL
if ! "$cxx" "${flags[@]}" "${use[@]}" -fsyntax-only "$scratch/control.cc"; then
  echo "a correct program does not compile"
  exit 1
fi
bad=0 count=0
for file in "$here"/*.cc; do
  count=$((count + 1))
  expected=$(sed -n 's|^// expect: ||p' "$file")
  if "$cxx" "${flags[@]}" "${use[@]}" -fsyntax-only "$file" >"$scratch/out" 2>&1; then
    echo "$file compiles, and should not"
    bad=1
  elif [ -z "$expected" ] || ! grep -qF -- "$expected" "$scratch/out"; then
    echo "$file fails without saying: $expected"
    grep -E 'error|assert' "$scratch/out" | head -n 5
    bad=1
  fi
done
echo "$count programs that must not compile"
exit $bad
