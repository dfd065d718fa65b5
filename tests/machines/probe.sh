#!/bin/bash
# A lifecycle script that only tells what it finds, line by line, where HyperPod's CloudWatch agent
# looks.
tell() { echo "$1=$2" >>/var/log/provision/provisioning.log; }
yes_if() { "$@" >/dev/null 2>&1 && echo yes || echo no; }
here=$(dirname "$0")
resources=/opt/ml/config/resource_config.json

echo "this line goes to standard output only"
tell user "$(id -un)"
tell host "$(hostname)"
tell addressed "$(yes_if grep -q "$(hostname -I | cut -d' ' -f1)" $resources)"
tell slurm-conf "$(yes_if test -e /opt/slurm/etc/slurm.conf)"
tell munge "$(systemctl is-active munge)"
tell slurmd "$(systemctl is-active slurmd)"
tell slurmctld "$(systemctl is-active slurmctld)"
tell mounted "$(yes_if mountpoint /fsx)"
tell resolves "$(yes_if getent hosts fs-0123456789abcdef0.fsx.us-east-1.amazonaws.com)"
tell sbatch "$(yes_if command -v sbatch)"
tell slurm-sbatch "$(yes_if test -x /opt/slurm/bin/sbatch)"
tell template "$(yes_if grep -q 'SLURMD_OPTIONS' /etc/systemd/system/slurmd.service)"
tell venv "$(yes_if python3 -m venv /tmp/environment)"
package_lock='open("/var/lib/dpkg/lock-frontend", "w")'
take="import fcntl; fcntl.lockf($package_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)"
tell package-lock "$(python3 -c "$take" 2>/dev/null && echo free || echo held)"
tell role "$(aws sts get-caller-identity --query Arn --output text 2>&1 | tail -n 1)"
tell environment "$(env | cut -d= -f1 | sort | tr '\n' ' ')"
if [[ -e $here/fail ]]; then
  tell last words
  exit 7
fi
