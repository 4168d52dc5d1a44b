#!/bin/bash
# slurm.sh DIR start|stop: a Slurm cluster of this machine alone, as root, with all its files in DIR. Needs the Debian
# packages slurmd, slurmctld, slurm-client and munge. `start` prints the variable that srun needs.
set -eu
mkdir -p "$1"
dir=$(cd "$1" && pwd)
stop() {
    for p in slurmd slurmctld munged; do
        if [ -s "$dir/$p.pid" ]; then kill "$(cat "$dir/$p.pid")" 2>/dev/null || true; fi
    done
}
[ "$2" = stop ] && { stop; exit 0; }
mkdir -p "$dir/state" "$dir/spool"
chmod 755 "$dir"
dd if=/dev/urandom of="$dir/munge.key" bs=1024 count=1 2>/dev/null
chmod 400 "$dir/munge.key"
name=$(hostname -s)
cat >"$dir/slurm.conf" <<END
ClusterName=test
SlurmctldHost=$name(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge.socket
CredType=cred/munge
SlurmctldPort=17817
SlurmdPort=17818
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
MpiDefault=none
ReturnToService=2
SchedulerType=sched/builtin
NodeName=$name NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES OverSubscribe=FORCE:8 State=UP
END
munged --force --key-file="$dir/munge.key" --socket="$dir/munge.socket" --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/munged.seed"
slurmctld -f "$dir/slurm.conf" >"$dir/start.log" 2>&1
slurmd -f "$dir/slurm.conf" >>"$dir/start.log" 2>&1
export SLURM_CONF=$dir/slurm.conf
for _ in $(seq 60); do
    if [ "$(sinfo -h -o %t 2>/dev/null)" = idle ]; then
        echo "SLURM_CONF=$SLURM_CONF"
        exit 0
    fi
    sleep 1
done
tail -n 3 "$dir/slurmctld.log" "$dir/slurmd.log" >&2
stop
exit 1
