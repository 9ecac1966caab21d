#!/bin/bash
# sbatch launch/slurm.sh configs/llama2_7b_objref.yaml [key=value ...]
# Three nodes of four GPUs; change the two numbers below together, and num_processes follows.
#SBATCH --job-name=grand3d
#SBATCH --nodes=3
#SBATCH --gpus-per-node=4
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=24:00:00
#SBATCH --output=runs/slurm-%j.log
set -euo pipefail
config=$1
shift
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
gpus=$((SLURM_NNODES * SLURM_GPUS_ON_NODE))
out=runs/$(basename "$config" .yaml)
export config first gpus out
# a requeued job goes on from its last checkpoint; without one, latest starts from step 0
srun bash -c 'accelerate launch --config_file launch/nodes.yaml --num_machines "$SLURM_NNODES" --num_processes "$gpus" \
  --machine_rank "$SLURM_NODEID" --main_process_ip "$first" -m grand3d train "$config" --out "$out" --resume latest "$@"' _ "$@"
