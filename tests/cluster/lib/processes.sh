# shellcheck shell=bash
# A process is known by its PID and its start time, so that a PID which the
# kernel has given to somebody else is never ended by us.

process_start_time() {
  local stat
  { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
  # The name in parentheses may hold blanks; the rest does not.
  read -ra stat <<<"${stat##*) }"
  [[ "${stat[0]}" != [ZX] ]] || return 1
  printf '%s\n' "${stat[19]}"
}

# process_remember FILE PID
process_remember() {
  local started
  started="$(process_start_time "$2")" || return 1
  printf '%s %s\n' "$2" "$started" >"$1.new"
  mv "$1.new" "$1"
}

# Prints the PID if that very process is still there.
process_alive() {
  local pid started
  [[ -s "$1" ]] && read -r pid started <"$1" || return 1
  [[ "$(process_start_time "$pid")" == "$started" ]] || return 1
  printf '%s\n' "$pid"
}

process_gone() { ! process_alive "$1" >/dev/null; }

# process_end FILE...: asks, waits, insists.
process_end() {
  local file pid
  for file in "$@"; do
    pid="$(process_alive "$file")" && kill -TERM "$pid" 2>/dev/null || true
  done
  for file in "$@"; do
    wait_until 5 "process of $file to end" process_gone "$file" && continue
    pid="$(process_alive "$file")" && kill -KILL "$pid" 2>/dev/null || true
    wait_until 5 "process of $file to die" process_gone "$file" || return 1
  done
}
