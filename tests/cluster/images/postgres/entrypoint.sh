#!/bin/sh
# Makes a database cluster in an empty PGDATA, then runs postgres in the
# foreground. Arguments go to postgres, for example: -c wal_level=logical.
#
#   POSTGRES_PASSWORD  required for a new cluster; the password of POSTGRES_USER
#   POSTGRES_USER      superuser (default: postgres)
#   POSTGRES_DB        database to create (default: the user's name)
#   POSTGRES_INITDB_ARGS  more arguments for initdb
set -eu

user="${POSTGRES_USER:-postgres}"
database="${POSTGRES_DB:-$user}"

if [ ! -s "$PGDATA/PG_VERSION" ]; then
  : "${POSTGRES_PASSWORD:?a new database needs POSTGRES_PASSWORD}"
  # Beside PGDATA and moved when whole, so a start that was cut off is repeated.
  new="$PGDATA.new"
  rm -rf "$new"
  mkdir -p "${PGDATA%/*}"
  umask 077
  password_file="$(mktemp)"
  printf '%s\n' "$POSTGRES_PASSWORD" > "$password_file"
  # shellcheck disable=SC2086  # several arguments are meant to be split
  initdb --pgdata "$new" --username "$user" --pwfile "$password_file" \
    --auth-local=trust --auth-host=scram-sha-256 --encoding=UTF8 --locale=C.UTF-8 \
    --no-sync ${POSTGRES_INITDB_ARGS:-}
  rm -f "$password_file"
  echo 'host all all all scram-sha-256' >> "$new/pg_hba.conf"
  echo 'host replication all all scram-sha-256' >> "$new/pg_hba.conf"
  # initdb knows neither; identifiers are quoted by the server's own single-user mode.
  if [ "$database" != postgres ]; then
    quoted="$(printf '%s' "$database" | sed 's/"/""/g')"
    printf 'CREATE DATABASE "%s"\n' "$quoted" | postgres --single -D "$new" postgres > /dev/null
  fi
  mv "$new" "$PGDATA"
fi
unset POSTGRES_PASSWORD

# A pod is ended with SIGTERM, which postgres would answer by waiting for its
# clients; SIGINT is its fast shutdown. The signal may come twice.
postgres -D "$PGDATA" -c listen_addresses='*' -c unix_socket_directories=/var/run/postgresql "$@" &
server=$!
trap 'kill -INT "$server" 2> /dev/null || true' TERM INT
trap 'kill -QUIT "$server" 2> /dev/null || true' QUIT
while :; do
  status=0
  wait "$server" || status=$?
  # Above 128 the wait was cut short by a signal, unless the server is gone too.
  [ "$status" -gt 128 ] && kill -0 "$server" 2> /dev/null || exit "$status"
done
