#!/bin/bash
# Starts what a node runs: munge, the Slurm daemon of its role, the agent. Safe to call again: what
# runs is left alone. Called at the end of on_create.sh; after a reboot systemd does the same, and
# the local cloud calls this script.
set -euo pipefail

root=${TRAINYARD_ROOT:-}
role=$(<"$root/etc/trainyard/role")
node_name=$(<"$root/etc/trainyard/node-name")
slurm_setup=$(<"$root/etc/trainyard/slurm-setup")
run_dir=$root/var/run/trainyard
log_dir=$root/var/log
mkdir -p "$run_dir" "$log_dir/slurm" "$log_dir/trainyard"
# The daemons' working directory, and the one thing that still tells whose a slurmstepd is.
cd "$root/"

say() { echo "[trainyard] services: $*"; }

# PID_FILE: the recorded process is there. One that was killed, and that nobody has reaped yet, has
# no command line.
exists() {
  local pid first
  [[ -r $1 ]] && pid=$(<"$1") && [[ -n $pid ]] || return 1
  IFS= read -r -d '' first 2>/dev/null <"/proc/$pid/cmdline" && [[ -n $first ]]
}

alive() { # PID_FILE PROGRAM: it is there, and its number was not given to another program
  exists "$1" && [[ $(cat "/proc/$(<"$1")/comm" 2>/dev/null) == "${2:0:15}" ]]
}

# NAME PID_FILE LOG_FILE PROGRAM [ARGUMENT...]: it is started again whenever it dies.
start_supervised() {
  local name=$1
  rm -f "$run_dir/$name.stop"
  if alive "$run_dir/supervise-$name.pid" bash; then
    say "$name runs already"
    return
  fi
  setsid bash "$root/opt/trainyard/bin/supervise" "$run_dir/$name.stop" "${@:2}" \
    >/dev/null 2>&1 </dev/null &
  echo $! >"$run_dir/supervise-$name.pid"
  say "$name started"
}

await_controller() {
  local try
  for try in {1..300}; do
    timeout 2 scontrol ping >/dev/null 2>&1 && return
    (( SECONDS < 25 )) || break
    sleep 0.05
  done
  say "slurmctld does not answer; its last lines:"
  tail -n 5 "$log_dir/slurm/slurmctld.out" "$log_dir/slurm/slurmctld.log" 2>/dev/null || true
  return 1
}

repeatedly() { # COMMAND...: until it succeeds, for a minute at most
  local until=$((SECONDS + 60))
  while ! "$@"; do
    (( SECONDS < until )) || return 1
    sleep 1
  done
}

start_controller() {
  # slurmctld reads EpilogSlurmctld and the timeouts at its start or reconfiguration only.
  if [[ -e $root/etc/trainyard/slurm-changed ]]; then
    systemctl restart slurmctld
    # The workers fetched their settings before ours were there.
    repeatedly timeout 10 scontrol reconfigure ||
      say "WARNING: slurmctld does not answer 'scontrol reconfigure': workers keep older settings"
    rm -f "$root/etc/trainyard/slurm-changed"
  else
    systemctl start slurmctld
  fi
}

mask_controller() {
  # The image's unit lies where a mask would; AWS's own scripts move it away, too.
  local unit=/etc/systemd/system/slurmctld.service
  [[ ! -f $unit ]] || mv "$unit" "${unit%.service}_DO_NOT_START_ON_CN.service"
  systemctl mask slurmctld || say "WARNING: slurmctld is not masked on this node"
}

start_with_systemd() {
  export PATH=$PATH:/opt/slurm/bin:/opt/slurm/sbin
  systemctl daemon-reload
  if [[ $slurm_setup == BackendsOwn || $slurm_setup == Adopted ]]; then
    systemctl enable trainyard-agent
    systemctl restart trainyard-agent # a set-up that ran again may have replaced its files
    say "started with systemd"
    return
  fi
  # The image's own set-up gives the node its key, maybe a moment after this script began.
  repeatedly systemctl enable --now munge
  if [[ $role == controller ]]; then
    systemctl enable slurmctld
    start_controller
  elif [[ $slurm_setup == ProvisioningParameters ]]; then
    # Scripts that run OnCreate own the set-up of Slurm; after OnInitComplete the image's is done
    # and slurmd runs.
    mask_controller
    systemctl enable --now slurmd
  fi
  systemctl enable --now trainyard-agent
  say "started with systemd"
}

start_without_systemd() {
  say "systemd is not used here: detached processes"
  if ! [[ -S ${TRAINYARD_MUNGE_SOCKET:-/run/munge/munge.socket.2} ]]; then
    say "munge does not run; Slurm needs it: start munged with the cluster's key"
    return 1
  fi
  case $slurm_setup/$role in
    BackendsOwn/* | Adopted/*) ;; # its own image, or its own scripts, start Slurm's daemons
    */controller)
      start_supervised slurmctld "$run_dir/slurmctld.pid" "$log_dir/slurm/slurmctld.out" \
        slurmctld -D
      await_controller
      ;;
    */worker)
      start_supervised slurmd "$run_dir/slurmd.pid" "$log_dir/slurm/slurmd.out" \
        slurmd -D -N "$node_name"
      ;;
  esac
  start_supervised agent "$run_dir/agent-process.pid" "$log_dir/trainyard/agent.out" \
    "$root/opt/trainyard/bin/trainyard-agent" daemon --config "$root/etc/trainyard/agent.json"
}

if [[ -z $root && -d /run/systemd/system ]]; then
  start_with_systemd
else
  start_without_systemd
fi
