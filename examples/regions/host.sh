#!/bin/sh
# The worker of a host on premises, which is this machine: host.sh start|stop FILE [COMMAND ARGUMENT...]
# FILE has the id of its process. To start what runs, or to stop what does not, is no harm.
action=$1
file=$2
shift 2
runs() { [ -s "$file" ] && kill -0 "$(cat "$file")" 2>/dev/null; }
case $action in
start)
    runs && exit 0
    setsid "$@" >"$file.log" 2>&1 </dev/null &
    echo $! >"$file"
    ;;
stop)
    runs || exit 0
    kill "$(cat "$file")"
    ;;
*)
    echo "expected start or stop, found $action" >&2
    exit 2
    ;;
esac
