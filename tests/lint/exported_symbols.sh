#!/usr/bin/env bash
# libmobula.so shows symbols of namespace mobula, mobula_* and __libc_start_main, and nothing of the libraries inside.
#   exported_symbols.sh LIBRARY
set -uo pipefail
foreign=$(nm -D --defined-only --format=posix "$1" | cut -d' ' -f1 | sed 's/@.*//' |
  grep -vE '^(_ZNK?6mobula|_ZT[ISV]N6mobula|_ZThn[0-9]+_N6mobula|mobula_|__libc_start_main$)' || true)
if [ -n "$foreign" ]; then
  echo "libmobula.so exports symbols that are not its own; see runtime/cmake/libmobula.map:"
  c++filt <<<"$foreign" | head -n 20
  exit 1
fi
inner=$(nm -D --defined-only --format=posix "$1" | cut -d' ' -f1 | c++filt |
  grep -E '^mobula::(scheduler|objectstore|wire|net|process|core)::' || true)
if [ -n "$inner" ]; then
  echo "libmobula.so exports internals; only the public API is marked MOBULA_API:"
  head -n 20 <<<"$inner"
  exit 1
fi
echo "$(nm -D --defined-only "$1" | wc -l) symbols, all of the public API"
