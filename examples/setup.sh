#!/usr/bin/env bash
# Installs the Debian 12 packages that Mobula is built from, as root or with sudo. Does nothing when all are there:
# apt is not even called.
#   examples/setup.sh            what it takes to build Mobula and run the examples
#   examples/setup.sh --tests    what the tests need, too
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config ccache mold   # the tools
  libasio-dev libssl-dev                         # sockets, TLS
  capnproto libcapnp-dev                         # the protocol's bytes
  librocksdb-dev                                 # the head's store
  libfmt-dev libspdlog-dev                       # text and logs
  libcli11-dev nlohmann-json3-dev                # the command line
  libcpp-httplib-dev                             # HTTP
  libzstd-dev zlib1g-dev                         # compression
  libeigen3-dev dataset-fashion-mnist            # the quickstart's network and its data
)
tests=(doctest-dev librapidcheck-dev iproute2 nftables)
case "${1:-}" in
  "") ;;
  --tests) packages+=("${tests[@]}") ;;
  *) sed -n '2,5p' "$0" >&2; exit 2 ;;
esac

command -v dpkg-query >/dev/null || {
  echo "setup: this is not Debian. Install by your system's means what these Debian packages hold: ${packages[*]}" >&2
  exit 1
}
installed=$(dpkg-query --show --showformat '${binary:Package} ${db:Status-Status}\n' 2>/dev/null |
  sed -n 's/^\([^ :]*\)\(:[^ ]*\)\? installed$/\1/p')
missing=()
for package in "${packages[@]}"; do
  grep -qxF "$package" <<<"$installed" || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: these packages are missing, and neither root nor sudo is at hand to install them:" >&2
    echo "  apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 "$@" </dev/null
}
apt -qq update
apt -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 install "${missing[@]}"
