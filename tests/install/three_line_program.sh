#!/usr/bin/env bash
# Installs a build into a fresh folder, builds a three-line program against it with find_package(Mobula), and runs it.
#   three_line_program.sh CMAKE BUILD_FOLDER CXX
set -euo pipefail
cmake=$1 build=$2 cxx=$3
here=$(cd "$(dirname "$0")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

"$cmake" --install "$build" --prefix "$folder/prefix" >"$folder/install.log" || { cat "$folder/install.log"; exit 1; }
cp -r "$here/consumer" "$folder/consumer"
"$cmake" -G Ninja -S "$folder/consumer" -B "$folder/build" -DCMAKE_CXX_COMPILER="$cxx" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_PREFIX_PATH="$folder/prefix"
"$cmake" --build "$folder/build"
unset MOBULA_BIN MOBULA_ADDRESS MOBULA_CLUSTER_FILE
# Started from an empty environment's PATH: the library finds `mobula` in ../bin beside itself.
cd / && PATH=/usr/bin:/bin timeout 60 "$folder/build/consumer"
echo "the installed library ran a task"
