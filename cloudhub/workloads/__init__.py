"""Workload controllers: what keeps Deployments, DaemonSets, Jobs and their kind as wished; and what cleans up."""
