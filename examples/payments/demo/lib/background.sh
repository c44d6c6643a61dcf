# shellcheck shell=bash
# Work that goes on beside other work, with its output in a file until somebody
# waits for it.

declare -A background_pid=() background_log=()

# in_background NAME COMMAND...
in_background() {
  local job="$1"
  shift
  background_log[$job]="$(mktemp)"
  "$@" >"${background_log[$job]}" 2>&1 5>&- &
  background_pid[$job]=$!
}

# Shows what it says from now on, and ends as it ends.
wait_for() { # NAME
  local job="$1" status=0 tail_pid
  tail -n 1 -f --pid="${background_pid[$job]}" "${background_log[$job]}" 2>/dev/null | relay &
  tail_pid=$!
  wait "${background_pid[$job]}" || status=$?
  wait "$tail_pid" || true
  unset "background_pid[$job]"
  if ((status != 0)); then
    cat "${background_log[$job]}" >&2
    die "$job failed"
  fi
  rm -f "${background_log[$job]}"
  unset "background_log[$job]"
}

stop_background() {
  local pid
  for pid in "${background_pid[@]}"; do
    kill "$pid" 2>/dev/null || true
  done
  wait
  rm -f "${background_log[@]}"
}
