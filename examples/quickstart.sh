#!/usr/bin/env bash
# From a fresh clone on Debian 12 to a parallel tuning job: installs the packages, builds what the job needs, and runs
# it on a cluster of three nodes that it starts on this machine and stops at the end.
#   examples/quickstart.sh                                          all of the above
#   examples/quickstart.sh --cluster-file F --address HOST:PORT     the same job on a cluster that runs already
#   examples/quickstart.sh --resume                                 goes on with an interrupted job
# All arguments go to build/bin/examples/quickstart; --help lists them.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

"$root/examples/setup.sh"
(
  cd "$root"
  if ! [ -e build/build.ninja ]; then
    mkdir -p build
    cmake --preset release >build/configure.log 2>&1 || { cat build/configure.log >&2; exit 1; }
  fi
  echo "building Mobula in $root/build"
  cmake --build build --target mobula_cli mobula example_quickstart
)
exec "$root/build/bin/examples/quickstart" "$@"
