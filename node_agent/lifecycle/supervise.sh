#!/bin/bash
# Keeps one program running where no systemd runs, as Restart=always would; a stop file ends it.
# usage: supervise STOP_FILE PID_FILE LOG_FILE PROGRAM [ARGUMENT...]
set -uo pipefail

stop_file=$1 pid_file=$2 log_file=$3
shift 3
child=
trap 'touch "$stop_file"; [[ -n $child ]] && kill -TERM "$child" 2>/dev/null' TERM INT

while [[ ! -e $stop_file ]]; do
  "$@" >>"$log_file" 2>&1 </dev/null &
  child=$!
  echo "$child" >"$pid_file"
  wait "$child"
  [[ -e $stop_file ]] || sleep 0.5 # systemd's RestartSec
done
rm -f "$pid_file"
