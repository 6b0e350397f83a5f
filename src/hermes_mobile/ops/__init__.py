"""What the operator's machine is told: logs."""
