#!/bin/sh
# prony lab, host @HOST@: a PostgreSQL cluster of its own, made anew and gone with the lab. It refuses to run as root.
set -eu
BIN=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -n 1)
DIR=@DIR@/pg
USER_ID=$(id -u postgres 2>/dev/null || id -u nobody)
GROUP_ID=$(id -g postgres 2>/dev/null || id -g nobody)
# The log that each commit writes lies with the other logs: that of a disk is what a commit waits for.
WAL=@LOGS@/wal
mkdir -p "$DIR" "$WAL"
chown "$USER_ID:$GROUP_ID" "$DIR" "$WAL"
as_server() { setpriv --reuid="$USER_ID" --regid="$GROUP_ID" --clear-groups "$@"; }
cd "$DIR"
# Nothing of the cluster is kept, so nothing has to reach the disk while it is made.
as_server "$BIN/initdb" -D "$DIR/data" -X "$WAL" -U app -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$DIR/initdb.log"
cat >>"$DIR/data/postgresql.conf" <<END
listen_addresses = '*'
port = 5432
unix_socket_directories = '$DIR'
max_connections = @MAX_CONNECTIONS@
shared_buffers = 128MB
synchronous_commit = @SYNCHRONOUS_COMMIT@
autovacuum = off
jit = off
log_min_duration_statement = 200
END
if [ -e "$BIN/../lib/pg_stat_statements.so" ]; then
    echo "shared_preload_libraries = 'pg_stat_statements'" >>"$DIR/data/postgresql.conf"
fi
echo 'host all all samenet trust' >>"$DIR/data/pg_hba.conf"
as_server "$BIN/pg_ctl" -D "$DIR/data" -w -t 30 -l "$DIR/postgres.log" start
as_server "$BIN/psql" -XAtq -h "$DIR" -U app -v ON_ERROR_STOP=1 postgres <<END
create database app;
\c app
create table items(id int primary key, code text not null, name text not null, price int not null);
insert into items select g, md5(g::text), 'item ' || g, g % 1000 from generate_series(0, 59999) g;
@INDEX@
create table visits(id int primary key, n bigint not null) with (fillfactor = 50);
insert into visits select g, 0 from generate_series(0, 999) g;
vacuum analyze;
END
if [ -e "$BIN/../lib/pg_stat_statements.so" ]; then
    as_server "$BIN/psql" -XAtq -h "$DIR" -U app -c 'create extension if not exists pg_stat_statements' app || true
fi
