# Installs what the checks and tests need beside Rust. Sourced by scripts/test.
# Everything but the apt packages goes into the target directory, once, and again when the pinned versions change.
# shellcheck shell=bash disable=SC2154 # `target` is set by scripts/test

cargo_deny_version=0.20.2
mdbook_version=0.5.4
typos_version=1.51.1
openapi_validator=openapi-spec-validator==0.9.0

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    printf 'error: `%s` needs root, and there is no sudo\n\nhint: run this as root\n' "$*" >&2
    return 1
  fi
}

# The fault tests look for it in the same places.
has_faketime() {
  ls /usr/lib/*/faketime/libfaketimeMT.so.1 >/dev/null 2>&1
}

# Installs the apt packages of the commands that are missing.
install_packages() {
  local packages=()
  command -v cc >/dev/null || packages+=(gcc libc6-dev)
  command -v c++ >/dev/null || packages+=(g++)
  command -v git >/dev/null || packages+=(git)
  command -v curl >/dev/null || packages+=(curl)
  command -v tmux >/dev/null || packages+=(tmux)
  # A clock that jumps, for one process.
  has_faketime || ! apt-cache show libfaketime >/dev/null 2>&1 || packages+=(libfaketime)
  command -v npm >/dev/null || packages+=(nodejs npm)
  command -v chromium >/dev/null || packages+=(chromium)
  # Other systems call it otherwise; the page is then tested in Chromium alone.
  command -v firefox-esr >/dev/null || ! apt-cache show firefox-esr >/dev/null 2>&1 || packages+=(firefox-esr)
  python3 -c 'import ensurepip' 2>/dev/null || packages+=(python3 python3-venv)
  if [ ${#packages[@]} -eq 0 ]; then
    echo "nothing to install"
    return
  fi
  as_root apt-get update --quiet &&
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends "${packages[@]}"
}

# Servers of chat platforms and clients for the tests of bridges, which start them. The stand-in for Slack runs on the Node of install_interop.
install_bridge_servers() {
  local home=$target/bridges pinned=tests/bridges packages=()
  mkdir -p "$home" &&
    npm_packages "$home" "$pinned" &&
    python_packages "$home/synapse" "$pinned/requirements-synapse.txt" &&
    python_packages "$target/bridge-tests" "$pinned/requirements.txt" || return
  for server in ngircd prosody ejabberdctl; do
    PATH=$PATH:/usr/sbin command -v "$server" >/dev/null || packages+=("${server%ctl}")
  done
  if [ ${#packages[@]} -eq 0 ]; then
    echo "no packages to install"
    return
  fi
  as_root apt-get update --quiet &&
    as_root env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install --yes --quiet --no-install-recommends "${packages[@]}"
}

# The newer Node that the MCP conformance suite needs, MCP servers and SDKs by others, the suite itself.
install_interop() {
  local home=$target/interop pinned=tests/interop
  mkdir -p "$home" &&
    npm_packages "$home" "$pinned" &&
    python_packages "$home/mcp-1" "$pinned/requirements-mcp1.txt" &&
    python_packages "$home/mcp-2" "$pinned/requirements.txt"
}

npm_packages() {
  local home=$1 pinned=$2
  cmp --silent "$pinned/package-lock.json" "$home/node_modules/installed.json" && return
  cp "$pinned/package.json" "$pinned/package-lock.json" "$home" &&
    npm ci --prefix "$home" --ignore-scripts --no-audit --no-fund --loglevel error &&
    cp "$pinned/package-lock.json" "$home/node_modules/installed.json"
}

python_packages() {
  local home=$1 pinned=$2
  cmp --silent "$pinned" "$home/installed.txt" && return
  python3 -m venv --clear "$home" &&
    "$home/bin/python" -m pip install --quiet --disable-pip-version-check --requirement "$pinned" &&
    cp "$pinned" "$home/installed.txt"
}

# The spelling checker and the OpenAPI validator.
install_checkers() {
  local home=$target/checkers
  mkdir -p "$home" &&
    printf '%s\n' "typos==$typos_version" "$openapi_validator" >"$home/requirements.txt" &&
    python_packages "$home/python" "$home/requirements.txt"
}

# Builds a program of crates.io from source without optimisation, because what takes long is the compiler, not the program.
install_crate() {
  local name=$1 version=$2
  shift 2
  local home=$target/$name
  case $("$home/bin/$name" --version 2>/dev/null) in
    "$name $version" | "$name v$version") return ;;
  esac
  env CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 \
    CARGO_PROFILE_RELEASE_DEBUG=0 CARGO_TARGET_DIR="$home/build" \
    cargo install --quiet --locked --root "$home" --version "$version" "$@" "$name" &&
    rm -rf "$home/build"
}

install_cargo_deny() {
  install_crate cargo-deny "$cargo_deny_version"
}

# Without its web server and its watching of files.
install_mdbook() {
  install_crate mdbook "$mdbook_version" --no-default-features --features search
}
