#!/bin/bash
# Turns a node of ParallelCluster into one of ours. ParallelCluster runs it as root on each node, at
# the end of the node's configuration (OnNodeConfigured), and on the head node with `updated` after
# each update of the cluster (OnNodeUpdated): then the agent learns what the cluster is now.
# usage: parallelcluster_node.sh s3://BUCKET/PREFIX controller|worker|login [neuron|updated]
# What it prints goes to the log that ParallelCluster sends to CloudWatch, and to lifecycle.log on
# the node. It may run again, also after it was cut off at any line.
set -euo pipefail

root=${TRAINYARD_ROOT:-}
export PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin
log_dir=$root/var/log/trainyard
bundle=$root/opt/trainyard/bundle
mkdir -p "$log_dir" "${bundle%/*}"

say() { echo "[trainyard] $*"; }

fail() { # STEP WHY: the one line that tells it all
  say "FAILED in step '$1': $2"
  return 1
}

# The agent needs Python 3.10 or newer. Where the system's is older, ParallelCluster has its own.
find_python() {
  local python
  if [[ -n ${TRAINYARD_PYTHON:-} ]]; then
    echo "$TRAINYARD_PYTHON"
    return
  fi
  for python in python3 python3.12 python3.11 python3.10 \
    /opt/parallelcluster/pyenv/versions/*/bin/python3; do
    if "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))' \
      2>/dev/null; then
      command -v "$python"
      return
    fi
  done
  return 1
}

fetch() { # the whole bundle or none; what a new network refuses is tried again
  local try part=$bundle.part
  for try in 1 2 3 4 5; do
    rm -rf "$part"
    if aws s3 cp --recursive --only-show-errors "$1" "$part"; then
      [[ -f $part/parallelcluster.py ]] ||
        { fail bundle "nothing of ours lies at $1; the control plane puts it there"; return; }
      rm -rf "$bundle"
      mv "$part" "$bundle"
      return
    fi
    say "the bundle at $1, try $try of 5"
    [[ -n $root ]] || sleep 5
  done
  fail bundle "$1 cannot be copied; the node's role needs s3:GetObject and s3:ListBucket there"
}

set_up() {
  local source=${1:-} role=${2:-} python
  [[ $source == s3://*/* ]] ||
    { fail arguments "'$source' must be s3://BUCKET/PREFIX of the bundle"; return; }
  [[ $role =~ ^(controller|worker|login)$ ]] ||
    { fail arguments "'$role' must be controller, worker or login"; return; }
  python=$(find_python) ||
    { fail python "no Python 3.10 to 3.12 on this image; use ubuntu2204 or ubuntu2404"; return; }
  fetch "${source%/}" || return
  # -S: the scripts need the standard library only, and site costs a third of the start-up time.
  TRAINYARD_AGENT_PYTHON=$python "$python" -S -B "$bundle/parallelcluster.py" "${@:2}" || return
  if ! bash "$root/opt/trainyard/bin/start-services"; then
    fail services "start-services ended with an error: $(tail -n 1 "$log_dir/lifecycle.log")"
    return
  fi
  if [[ ${3:-} == updated ]]; then
    [[ -d /run/systemd/system && -z $root ]] || restart_agent
    say "node updated"
    return
  fi
  [[ $role != controller ]] || reconfigure
  say "node set up"
}

# Where systemd does not: what supervises the agent starts it again at once.
restart_agent() {
  local pid
  pid=$(cat "$root/var/run/trainyard/agent-process.pid" 2>/dev/null) || return 0
  kill "$pid" 2>/dev/null || say "the agent did not run; it is started"
}

# slurmctld started before our hook at a job's end was there, and took it for a mistake.
reconfigure() {
  local path=$PATH:/opt/slurm/bin
  PATH=$path timeout 60 scontrol reconfigure ||
    say "WARNING: slurmctld does not answer: ends of jobs are noticed more slowly"
}

# The callers of these functions look at their status, and bash then stops at no error by itself.
if ! set_up "$@" 2>&1 | tee -a "$log_dir/lifecycle.log"; then
  exit 1
fi
