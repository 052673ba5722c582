#!/usr/bin/env bash
# Each public header compiles alone, without a warning, and reaches no header of a library that Mobula keeps to itself.
#   public_headers.sh CXX REPOSITORY
set -uo pipefail
cxx=$1 root=$2
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
includes=()
for folder in runtime/include gpu/include tune/include; do
  [ -d "$root/$folder" ] && includes+=("-I$root/$folder")
done
kept='asio|asio\.hpp|capnp|kj|rocksdb|openssl|spdlog|fmt|nlohmann|httplib\.h|CLI'
bad=0 count=0
for folder in "${includes[@]}"; do
  folder=${folder#-I}
  while IFS= read -r header; do
    count=$((count + 1))
    echo "#include <$header>" >"$scratch/alone.cc"
    if ! "$cxx" -std=c++20 -fsyntax-only -Wall -Wextra -Wpedantic -Wshadow -Werror -Wno-missing-field-initializers \
        "${includes[@]}" -MD -MF "$scratch/alone.d" "$scratch/alone.cc"; then
      echo "<$header> does not compile alone: include what it uses."
      bad=1
    elif reached=$(grep -oE "[^ ]*/($kept)(/[^ ]*)?" "$scratch/alone.d" | head -n 1) && [ -n "$reached" ]; then
      echo "<$header> reaches $reached: keep that library behind libmobula.so, in a .cc file."
      bad=1
    fi
  done < <(cd "$folder" && find . -name '*.h' | sed 's|^\./||' | sort)
done
echo "$count public headers"
exit $bad
