# Steps of a run: prints each with its seconds, keeps them, and names the slowest at the end. Sourced by scripts/test.
# shellcheck shell=bash

step_times=()      # "seconds name", one for each finished step
skipped_checks=() # what could not be checked, and why

# Runs a command as a named step; ends the run when it fails.
step() {
  local name=$1
  shift
  printf '\n==> %s\n' "$name"
  local began=$SECONDS
  if ! "$@"; then
    printf '==> failed: %s (%d s)\n' "$name" $((SECONDS - began)) >&2
    exit 1
  fi
  local seconds=$((SECONDS - began))
  step_times+=("$seconds $name")
  printf '==> %s: %d s\n' "$name" "$seconds"
}

# Starts a command whose result a later `join_background` waits for. Its output is printed there.
background_step() {
  local name=$1 log=$2
  shift 2
  printf '\n==> %s: started in the background\n' "$name"
  # A process group of its own, so that a failed run can end it with its children.
  set -m
  "$@" >"$log" 2>&1 &
  background_pid=$!
  set +m
  background_log=$log
}

# Waits for what `background_step` started, prints its output and fails if it failed.
join_background() {
  local status=0
  wait "$background_pid" || status=$?
  background_pid=
  cat "$background_log"
  return "$status"
}

# Prints the three slowest steps and appends all of them to a file of tab-separated values:
# end time of the run, commit, mode, step, seconds.
finish_steps() {
  local mode=$1 file=$2 commit when
  commit=$(git rev-parse --short HEAD 2>/dev/null || echo unknown)
  when=$(date --utc +%Y-%m-%dT%H:%M:%SZ)
  mkdir -p "$(dirname "$file")"
  local entry
  for entry in "${step_times[@]}"; do
    printf '%s\t%s\t%s\t%s\t%s\n' "$when" "$commit" "$mode" "${entry#* }" "${entry%% *}" >>"$file"
  done
  printf '\nslowest steps:\n'
  printf '%s\n' "${step_times[@]}" | sort --numeric-sort --reverse | head -n 3 | sed -E 's/^([0-9]+) (.*)/  \1 s  \2/'
  printf 'all step times: %s\n' "$file"
  local which=all
  if [ ${#skipped_checks[@]} -gt 0 ]; then
    which="all other"
    printf '\nNOT CHECKED: %s\n' "${skipped_checks[@]}"
  fi
  printf '\n%s checks and tests passed in %d min %d s\n' "$which" $((SECONDS / 60)) $((SECONDS % 60))
}
